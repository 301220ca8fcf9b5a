#include "runner/link_runner.h"

#include <fmt/format.h>

#include "runner/far_program.h"
#include "runner/hosted_runner.h"
#include "runner/worker/worker_runner.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

RunnerOptions options_there(RunnerOptions options, const Link& link, const Env& env) {
  if (options.worker_memory_bytes > 0)
    env.log(LogLevel::kWarning, fmt::format("the memory of workers on {} is not limited", link.name));
  options.worker_memory_bytes = 0;  // it would be the client's
  return options;
}

class LinkRunner : public HostedRunner {
 public:
  LinkRunner(const Link& link, const RunnerOptions& options, const Env& env)
      : HostedRunner(options_there(options, link, env), env),
        name_(link.name),
        workers_(make_streamed_worker_runner(far_worker(link, options_, env), link.device, options_, env)) {}

  std::unique_ptr<Session> load(const Model& model, const SessionOptions& options) override {
    return persistent([this, model, options] { return workers_->load(model, options); });
  }
  std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& options) override {
    return load(load_model(path), options);
  }
  std::vector<NodePlacement> placement(const Model& model, std::span<const Tensor> inputs, int runs) override {
    try {
      return workers_->placement(model, inputs, runs);
    } catch (const Error& error) {
      if (error.code() != Code::kUnavailable) throw;
    }
    load(model, {});  // is there when the machine is there again
    return workers_->placement(model, inputs, runs);
  }
  ProcessMemory memory() override { return workers_->memory(); }
  int threads() const override { return workers_->threads(); }
  std::string description() const override { return fmt::format("{} by {}", workers_->description(), name_); }

 private:
  std::string name_;
  std::unique_ptr<Runner> workers_;
};

}  // namespace

std::unique_ptr<Runner> make_link_runner(const Link& link, const RunnerOptions& options, const Env& env) {
  return std::make_unique<LinkRunner>(link, options, env);
}

}  // namespace seqto::internal
