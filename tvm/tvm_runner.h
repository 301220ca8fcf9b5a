// seqto-tvm worker: a Runner of models that were compiled before.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "connection.h"
#include "seqto/runner.h"

namespace seqto::on_tvm {

// Runs compiled models: folders with model.so and model.json, as src/runner/tvm_compile.h makes them. load_file() takes
// such a folder; load() and optimized() throw. Without `remote` on this machine, else over a connection that is made at
// the first load, and again at a load after it broke. A broken link is Error{kUnavailable}: its sessions are lost.
class TvmRunner : public Runner {
 public:
  TvmRunner(std::string kind, std::optional<Remote> remote, int threads);
  std::unique_ptr<Session> load(const Model& model, const SessionOptions& options) override;
  std::unique_ptr<Session> load_file(const std::string& folder, const SessionOptions& options) override;
  Model optimized(const Model& model) override;
  std::string description() const override;
  int threads() const override { return threads_; }

  // Calls f; TVM's errors become ours, and a link that broke is remembered. `connection`: null on this machine.
  template <class F>
  static auto guarded(Connection* connection, F f) -> decltype(f()) {
    try {
      return translated(connection != nullptr, f);
    } catch (const Error& error) {
      if (connection && error.code() == Code::kUnavailable) connection->mark_broken();
      throw;
    }
  }

 private:
  std::string kind_;
  std::optional<Remote> remote_;
  int threads_;
  std::shared_ptr<Connection> connection_;  // sessions share it; null before the first
};

}  // namespace seqto::on_tvm
