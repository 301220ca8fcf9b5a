// Room: runner. A session behind a link that may break: runs are repeated on a new connection.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "seqto/env.h"
#include "seqto/runner.h"

namespace seqto::internal {

// `open` makes a session. It, and the session's runs, throw Error{kUnavailable} when the link is broken or cannot be
// made; that is tried again, with growing pauses. Other errors are passed on.
class ReconnectingSession : public Session {
 public:
  using Open = std::function<std::unique_ptr<Session>()>;
  // Opens the first session. Throws DeviceGone when that fails for `first_patience_seconds`; later ones have
  // `patience_seconds` each.
  ReconnectingSession(Open open, double first_patience_seconds, double patience_seconds, const Env& env);

  std::vector<Tensor> run(std::span<const Tensor> inputs) override;
  TimedOutputs run_timed(std::span<const Tensor> inputs) override;
  std::vector<TimedOutputs> run_many(std::span<const std::vector<Tensor>> samples) override;
  std::vector<int64_t> time(std::span<const Tensor> inputs, int repeats) override;
  void cancel() noexcept override;
  const std::vector<std::string>& input_names() const override { return input_names_; }
  const std::vector<std::string>& output_names() const override { return output_names_; }

 private:
  template <class F>
  auto persistent(F f) -> decltype(f());
  void reopen(double patience_seconds);
  void replace(std::unique_ptr<Session> session);

  Open open_;
  double patience_seconds_;
  Env env_;
  std::mutex mutex_;                  // of what cancel() looks at
  std::unique_ptr<Session> session_;  // null: the link is broken
  std::vector<std::string> input_names_, output_names_;
};

}  // namespace seqto::internal
