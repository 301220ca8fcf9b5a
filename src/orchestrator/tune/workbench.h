// Room: orchestrator/tune. What a study learns from: a float model, the calibration's samples, and who runs them.
#pragma once

#include <span>

#include "orchestrator/tune/time_budget.h"
#include "seqto/dataset.h"
#include "seqto/metrics.h"
#include "seqto/runner.h"

namespace seqto::internal {

// All of it outlives this.
struct Workbench {
  const TuneOptions& options;
  const Model& model;  // in the form that candidates are made of
  const QuantizeOptions& quantize;
  const Dataset& data;
  std::span<const int64_t> samples;  // to calibrate with
  Runner& runner;                    // of this process: observers look into the runtime
  Study& study;                      // keeps what was learned
  TimeBudget& time;
  const Env& env;
};

}  // namespace seqto::internal
