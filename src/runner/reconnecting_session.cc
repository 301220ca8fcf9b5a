#include "runner/reconnecting_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// A device that takes the model and loses the link at the same run so many times loses it because of the model. Links
// that break by chance, one in three, do so once in ten thousand.
constexpr int kMostBreaks = 8;
constexpr Seconds kFirstPause{0.05}, kLongestPause{5};

}  // namespace

ReconnectingSession::ReconnectingSession(Open open, double first_patience_seconds, double patience_seconds,
                                         const Env& env)
    : RepeatedSession(std::move(open)), patience_seconds_(patience_seconds), env_(env) {
  reopen(first_patience_seconds);
}

void ReconnectingSession::repeat(const std::function<void()>& work) {
  for (int breaks = 0;;) {
    if (is_lost()) reopen(patience_seconds_);
    try {
      return work();
    } catch (const Error& error) {
      if (error.code() != Code::kUnavailable) throw;
      lose();
      if (++breaks == kMostBreaks)
        throw Error(
            Code::kInvalidInput,
            fmt::format("[run] the device lost the link at this run {} times in a row, and was there again each "
                        "time; it does not survive the model: {}",
                        breaks, error.what()));
      env_.log(LogLevel::kInfo, fmt::format("the link broke, connecting again: {}", error.what()));
    }
  }
}

void ReconnectingSession::reopen(double patience_seconds) {
  auto start = Clock::now();
  for (Seconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    env_.stop_if_cancelled("connect");
    try {
      open();
      return;
    } catch (const Error& error) {
      if (error.code() != Code::kUnavailable) throw;
      Seconds away = Clock::now() - start;
      if (away.count() >= patience_seconds)
        throw DeviceGone(
            fmt::format("[connect] the device has been away for {:.0f} s: {}; when it is back, the same "
                        "command goes on",
                        away.count(), error.what()));
      env_.log(LogLevel::kDebug, fmt::format("no connection yet: {}", error.what()));
      pause = std::min(pause, std::max(kFirstPause, Seconds(patience_seconds) - away));
    }
    for (auto end = Clock::now() + pause; Clock::now() < end && !env_.cancelled();)
      std::this_thread::sleep_for(std::min<Seconds>(end - Clock::now() + kFirstPause, Seconds(0.1)));
  }
}

}  // namespace seqto::internal
