// Room: orchestrator/tune. The seconds that a run of `tune` may take, what is left of them, who gets which share, and
// how fast the machine is now.
//
// Every long step asks the one budget whether it has time left, with an estimate that sample_seconds() scales: a
// machine may get other work while a run goes on.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/tune/options.h"
#include "seqto/env.h"
#include "seqto/error.h"
#include "seqto/metrics.h"

namespace seqto::internal {

// Less than five minutes, where learning a network of 50 layers and up to 1,280 inputs takes some twenty seconds.
inline bool is_hurried(const TuneOptions& o) { return o.max_time_seconds > 0 && o.max_time_seconds < 300; }

// A search without samples of its own: its limit lasts for few candidates, and each is measured for the report alone.
inline bool measures_once(const TuneOptions& o, const Study& study) {
  return searches(o) && study.header().search_samples == 0;
}

class TimeBudget {
 public:
  // From now on; 0 seconds: no limit. `env` outlives it.
  TimeBudget(double seconds, const Env& env) : env_(env), start_ns_(env.clock_ns()), seconds_(seconds) {}

  bool is_limited() const { return seconds_ > 0; }
  double spent() const { return static_cast<double>(env_.clock_ns() - start_ns_) / 1e9; }
  // Whether work of so many seconds ends within the limit.
  bool leaves(double seconds) const { return seconds_ <= 0 || spent() + seconds < seconds_; }
  // The same; where it does not, the report says what is missing.
  bool has_time(double seconds, const char* what) {
    if (leaves(seconds)) return true;
    leave_out(what);
    return false;
  }
  void leave_out(std::string what) { left_out_.push_back(std::move(what)); }
  const std::vector<std::string>& left_out() const { return left_out_; }

  // --- the shares, in seconds; infinite without a limit
  // One pass over samples. Of the evaluation a run makes three at least (float, published, one plan); of the search
  // samples one for each candidate; the calibration's are run with every tensor looked at, in several passes.
  double evaluation_pass() const { return part(1.0 / 10); }
  double short_evaluation_pass() const { return part(1.0 / 30); }  // where each candidate is measured on these alone
  double search_pass() const { return part(1.0 / 30); }
  double calibration_pass() const { return part(1.0 / 40); }
  double timing_a_sample() const { return part(0.01); }
  double rewriting() const { return left(1.0 / 6); }
  double improving() const { return left(0.4); }  // what is not found by then is left out
  double learning() const { return left(kLearning); }
  double first_learning() const { return kLearning * seconds_; }  // before anything else is learned
  double profiling() const { return part(0.2); }
  // At a time; half of it to make the models. Ten seconds are enough.
  double timing_plans() const { return at_most(kTimingPlans, 0.05); }
  bool shortens_timing_plans() const { return timing_plans() < kTimingPlans; }
  // What a search keeps for its plans to be reported, and for what comes after it.
  double reporting(double seconds) const { return at_most(seconds, 1.0 / 3); }
  double closing(double seconds) const { return at_most(seconds, 1.0 / 6); }
  double analyzing() const { return part(1); }
  // A search measures the uniform plans twice, a batch or two of others for each step, and again what it reports: some
  // thirty candidates, beside what comes before and after it. Where the limit lasts for fewer, each is measured once.
  bool lasts_for_search(double candidate_seconds) const {
    constexpr double kCandidates = 30;
    return seconds_ <= 0 || kCandidates * candidate_seconds < seconds_;
  }
  // A study that lasts for no more than so many plans like one measures those alone.
  static double few_plans(double plan_seconds) { return 5 * plan_seconds; }
  double late_finalists() const { return part(0.05); }  // to load those, once the time is over
  // What a strategy goes by: the search's, less a third for the plans that are reported, and less what comes after it.
  std::function<double()> search_spent(double closing) const { return share_spent(seconds_ / 3 + closing); }

  // --- what they are made of
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
  static constexpr double kLearning = 1.0 / 3, kTimingPlans = 10;

  // So much of the limit. Half of the 10 s that a run may be late count with it: the shortest runs do some work, too.
  double part(double share) const {
    constexpr double kLate = 5;
    return seconds_ > 0 ? share * (seconds_ + kLate) : std::numeric_limits<double>::infinity();
  }
  // So much of what is left of it.
  double left(double share) const {
    return seconds_ > 0 ? share * std::max(0.0, seconds_ - spent()) : std::numeric_limits<double>::infinity();
  }
  double look() const {
    const double begin = spent();
    probe_();
    looked_ = spent();
    return std::max(looked_ - begin, 1e-6);
  }

  const Env& env_;
  int64_t start_ns_;
  double seconds_;
  std::vector<std::string> left_out_;
  double sample_seconds_ = 0, first_ = 1;
  std::function<void()> probe_;
  mutable std::mutex looking_;
  mutable double last_ = 1, looked_ = 0;
};

// What `step` returns, which is called with an Env that is cancelled once so many seconds, at least one, are over;
// nothing then. Without a limit it is called as it is. Whatever stops for who interrupts the run stops for the time.
template <class Step>
auto in_time(const TimeBudget& time, double seconds, const Env& env, Step step)
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

// What a run does when its search is over, in estimated seconds: a short one leaves of it what it has no time for.
struct Closing {
  double analysis = 0;  // the error analysis and the tensors' values
  double timing = 0;    // of one finalist
  double drawing = 1;   // of plots/*.svg; two thirds of it to compile their script

  // `sample_seconds`: the float model's latency. The analysis runs two unoptimised models with every tensor an output,
  // which took ten times as long on five networks; values are looked at on 32 samples of both.
  static Closing of(const TuneOptions& o, double sample_seconds) {
    return {.analysis = sample_seconds * static_cast<double>(10 * o.ranking_samples + 3 * 32),
            .timing = sample_seconds * 2 * 31 + 0.005};
  }
  // As fast as the machine is now.
  static Closing now(const TuneOptions& o, const TimeBudget& time) {
    Closing closing = of(o, time.sample_seconds());
    closing.drawing *= time.slowdown();
    return closing;
  }
  // Of so many, in the two rounds that tell anything.
  double timing_of(size_t finalists) const { return timing * static_cast<double>(finalists) / 15; }
  // What a search keeps for it.
  double kept(const TuneOptions& o, const TimeBudget& time) const {
    return time.closing(analysis + drawing + (by_latency(o) ? timing * static_cast<double>(o.search.front) : 0));
  }
};

// Before a search that follows latencies: a uniform plan of each scheme is made, loaded and run fifteen times under the
// runtime's profiler.
inline double profile_seconds(const TuneOptions& o, const TimeBudget& time) {
  return 20 * static_cast<double>(o.schemes.size()) * time.sample_seconds();
}

}  // namespace seqto::internal
