#include "runner/worker/lasting_session.h"

#include <fmt/format.h>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

// A model that eats all memory has its workers killed each time, and is then to blame.
constexpr int kMostKills = 3;

}  // namespace

void for_each_worker(const Env& env, const std::function<void()>& f) {
  for (int kills = 1;; ++kills) {
    try {
      return f();
    } catch (const WorkerKilled& killed) {
      env.stop_if_cancelled("worker");  // whoever ends a job signals all its processes
      if (kills == kMostKills)
        throw WorkerKilled(
            fmt::format("{}, {} times in a row; where memory is short, take fewer --jobs, or limit a worker "
                        "by --worker-memory",
                        killed.what(), kills));
      env.log(LogLevel::kInfo, fmt::format("{}; another worker does it again", killed.what()));
    }
  }
}

LastingSession::LastingSession(Open open, const Env& env) : open_(std::move(open)), env_(env) {
  last([] {});
  input_names_ = session_->input_names();
  output_names_ = session_->output_names();
}

template <class F>
void LastingSession::last(F f) {
  for_each_worker(env_, [&] {
    if (!session_) replace(open_());
    try {
      f();
    } catch (const WorkerKilled&) {
      replace(nullptr);
      throw;
    }
  });
}

TimedOutputs LastingSession::run_timed(std::span<const Tensor> inputs) {
  TimedOutputs result;
  last([&] { result = session_->run_timed(inputs); });
  return result;
}

std::vector<TimedOutputs> LastingSession::run_many(std::span<const std::vector<Tensor>> samples) {
  std::vector<TimedOutputs> results;
  last([&] { results = session_->run_many(samples); });
  return results;
}

std::vector<int64_t> LastingSession::time(std::span<const Tensor> inputs, int repeats) {
  std::vector<int64_t> times;
  last([&] { times = session_->time(inputs, repeats); });
  return times;
}

void LastingSession::cancel() noexcept {
  std::lock_guard lock(mutex_);
  if (session_) session_->cancel();
}

void LastingSession::replace(std::unique_ptr<Session> session) {
  std::lock_guard lock(mutex_);
  session_.swap(session);
}

}  // namespace seqto::internal
