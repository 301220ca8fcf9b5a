#include "runner/worker/lasting_session.h"

#include <fmt/format.h>

#include <utility>

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

LastingSession::LastingSession(Open open, const Env& env) : RepeatedSession(std::move(open)), env_(env) {
  repeat([] {});
}

void LastingSession::repeat(const std::function<void()>& work) {
  for_each_worker(env_, [&] {
    if (is_lost()) open();
    try {
      work();
    } catch (const WorkerKilled&) {
      lose();
      throw;
    }
  });
}

}  // namespace seqto::internal
