// Room: orchestrator/tune. The seconds that a run of `tune` may take, what is left of them, and how fast the machine is
// now.
//
// Every long step asks the one limit whether it has time left, with an estimate that sample_seconds() scales: a machine
// may get other work while a run goes on.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "seqto/env.h"
#include "seqto/error.h"

namespace seqto::internal {

class TimeLimit {
 public:
  // From now on; 0 seconds: no limit. `env` outlives it.
  TimeLimit(double seconds, const Env& env) : env_(env), start_ns_(env.clock_ns()), seconds_(seconds) {}

  bool is_limited() const { return seconds_ > 0; }
  double spent() const { return static_cast<double>(env_.clock_ns() - start_ns_) / 1e9; }
  // Whether work of so many seconds ends within the limit.
  bool leaves(double seconds) const { return seconds_ <= 0 || spent() + seconds < seconds_; }
  // No more than this share of the limit; as given where there is none.
  double at_most(double seconds, double share) const {
    return seconds_ > 0 && seconds > share * seconds_ ? share * seconds_ : seconds;
  }
  // So much of the limit; infinite without one. Half of the 10 s that a run may be late count with it: the shortest
  // runs do some work, too.
  double part(double share) const {
    constexpr double kLate = 5;
    return seconds_ > 0 ? share * (seconds_ + kLate) : std::numeric_limits<double>::infinity();
  }
  // So much of what is left of it; infinite without one.
  double left(double share) const {
    return seconds_ > 0 ? share * std::max(0.0, seconds_ - spent()) : std::numeric_limits<double>::infinity();
  }
  // Of the time from when this is first asked until so many seconds before the end, how much is over; 1: all of it.
  // Empty without a limit. Copies share when they were first asked.
  std::function<double()> share_spent(double kept) const {
    if (seconds_ <= 0) return {};
    return [this, end = seconds_ - kept, begin = std::make_shared<std::optional<double>>()] {
      if (!*begin) *begin = spent();
      return spent() < end ? (spent() - **begin) / (end - **begin) : 1;
    };
  }

  // What a sample takes, reading and all, and a piece of work, always the same, that tells later how much longer things
  // take than now.
  void took(double sample_seconds, std::function<void()> probe) {
    sample_seconds_ = sample_seconds;
    probe_ = std::move(probe);
    first_ = last_ = look();
  }
  // As it was when that was told: 1. Looked at anew where a fiftieth of the limit has passed. From any thread.
  double slowdown() const {
    if (!probe_) return 1;
    const std::lock_guard lock(looking_);
    if (spent() - looked_ >= seconds_ / 50) last_ = (last_ + look()) / 2;
    return std::max(1.0, last_ / first_);
  }
  double sample_seconds() const { return sample_seconds_ * slowdown(); }

 private:
  double look() const {
    const double begin = spent();
    probe_();
    looked_ = spent();
    return std::max(looked_ - begin, 1e-6);
  }

  const Env& env_;
  int64_t start_ns_;
  double seconds_;
  double sample_seconds_ = 0, first_ = 1;
  std::function<void()> probe_;
  mutable std::mutex looking_;
  mutable double last_ = 1, looked_ = 0;
};

// What `step` returns, which is called with an Env that is cancelled once so many seconds, at least one, are over;
// nothing then. Without a limit it is called as it is. Whatever stops for who interrupts the run stops for the time.
template <class Step>
auto in_time(const TimeLimit& time, double seconds, const Env& env, Step step)
    -> std::optional<decltype(step(std::declval<const Env&>()))> {
  if (!time.is_limited()) return step(env);
  const double end = time.spent() + std::max(seconds, 1.0);
  Env limited = env;
  limited.cancelled = [&env, &time, end] { return env.cancelled() || time.spent() >= end; };
  try {
    return step(limited);
  } catch (const Error& error) {
    if (error.code() != Code::kInterrupted || env.cancelled()) throw;
    return std::nullopt;
  }
}

}  // namespace seqto::internal
