// Room: orchestrator/tune. What a run of `tune` does when its search is over, in estimated seconds: a short one leaves
// of it what it has no time for.
#pragma once

#include "orchestrator/tune/time_limit.h"
#include "orchestrator/tune/tune_options.h"
#include "seqto/tune.h"

namespace seqto::internal {

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
  static Closing now(const TuneOptions& o, const TimeLimit& time) {
    Closing closing = of(o, time.sample_seconds());
    closing.drawing *= time.slowdown();
    return closing;
  }

  // Before a search that follows latencies: a uniform plan of each scheme is made, loaded and run fifteen times under
  // the runtime's profiler.
  static double profile(const TuneOptions& o, const TimeLimit& time) {
    return 20 * static_cast<double>(o.schemes.size()) * time.sample_seconds();
  }

  // What a search keeps for it.
  double kept(const TuneOptions& o, const TimeLimit& time) const {
    const double all = analysis + drawing + (by_latency(o) ? timing * static_cast<double>(o.max_front) : 0);
    return time.at_most(all, 1.0 / 6);
  }
};

}  // namespace seqto::internal
