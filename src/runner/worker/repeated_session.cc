#include "runner/worker/repeated_session.h"

namespace seqto::internal {

TimedOutputs RepeatedSession::run_timed(std::span<const Tensor> inputs) {
  TimedOutputs result;
  repeat([&] { result = session_->run_timed(inputs); });
  return result;
}

std::vector<TimedOutputs> RepeatedSession::run_many(std::span<const std::vector<Tensor>> samples) {
  std::vector<TimedOutputs> results;
  repeat([&] { results = session_->run_many(samples); });
  return results;
}

std::vector<int64_t> RepeatedSession::time(std::span<const Tensor> inputs, int repeats) {
  std::vector<int64_t> times;
  repeat([&] { times = session_->time(inputs, repeats); });
  return times;
}

void RepeatedSession::cancel() noexcept {
  std::lock_guard lock(mutex_);
  if (session_) session_->cancel();
}

void RepeatedSession::open() {
  replace(open_());
  input_names_ = session_->input_names();
  output_names_ = session_->output_names();
}

void RepeatedSession::replace(std::unique_ptr<Session> session) {
  std::lock_guard lock(mutex_);
  session_.swap(session);
}

}  // namespace seqto::internal
