// Room: runner/worker. A session whose worker may be killed from outside.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "seqto/env.h"
#include "seqto/runner.h"

namespace seqto::internal {

// The worker was ended by a signal that no crash raises: by a person, or by a system that is short of memory.
// Nothing is known of the model.
class WorkerKilled : public Error {
 public:
  explicit WorkerKilled(const std::string& message) : Error(Code::kUnavailable, message) {}
};

// Calls f() again where its worker was killed, a few times. The last time WorkerKilled is thrown, with what to do.
void for_each_worker(const Env& env, const std::function<void()>& f);

// `open` makes a session in a worker that lives; its runs are repeated in another one where the worker was killed.
class LastingSession : public Session {
 public:
  using Open = std::function<std::unique_ptr<Session>()>;
  LastingSession(Open open, const Env& env);

  std::vector<Tensor> run(std::span<const Tensor> inputs) override { return run_timed(inputs).outputs; }
  TimedOutputs run_timed(std::span<const Tensor> inputs) override;
  std::vector<TimedOutputs> run_many(std::span<const std::vector<Tensor>> samples) override;
  std::vector<int64_t> time(std::span<const Tensor> inputs, int repeats) override;
  void cancel() noexcept override;
  const std::vector<std::string>& input_names() const override { return input_names_; }
  const std::vector<std::string>& output_names() const override { return output_names_; }

 private:
  template <class F>
  void last(F f);
  void replace(std::unique_ptr<Session> session);

  Open open_;
  Env env_;
  std::mutex mutex_;                  // of what cancel() looks at
  std::unique_ptr<Session> session_;  // null: its worker was killed
  std::vector<std::string> input_names_, output_names_;
};

}  // namespace seqto::internal
