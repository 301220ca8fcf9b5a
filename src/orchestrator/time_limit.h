// Room: orchestrator. The seconds that a run of `tune` may take, and what is left of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "seqto/env.h"

namespace seqto::internal {

class TimeLimit {
 public:
  // From now on; 0 seconds: no limit. `env` outlives it.
  TimeLimit(double seconds, const Env& env) : env_(env), start_ns_(env.clock_ns()), seconds_(seconds) {}

  double spent() const { return static_cast<double>(env_.clock_ns() - start_ns_) / 1e9; }
  // Whether work of so many seconds ends within the limit.
  bool leaves(double seconds) const { return seconds_ <= 0 || spent() + seconds < seconds_; }
  // No more than this share of the limit; as given where there is none.
  double at_most(double seconds, double share) const {
    return seconds_ > 0 && seconds > share * seconds_ ? share * seconds_ : seconds;
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

 private:
  const Env& env_;
  int64_t start_ns_;
  double seconds_;
};

}  // namespace seqto::internal
