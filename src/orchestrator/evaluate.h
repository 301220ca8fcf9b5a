// Room: orchestrator. One candidate: load it, run it on the evaluation samples, measure.
#pragma once

#include <string>
#include <vector>

#include "seqto/env.h"
#include "seqto/metrics.h"
#include "seqto/runner.h"

namespace seqto::internal {

struct EvaluationData {
  const Dataset* data = nullptr;
  std::vector<int64_t> samples;
  std::vector<int64_t> labels;  // one per sample; empty: no labels
  Outputs reference;            // the float model's outputs on the samples; empty while that is made
};

struct Evaluated {
  Measurement measurement;
  Outputs outputs;
};

// Throws what the runner throws. The first sample is run twice: the runtime's first run is a warm-up.
Evaluated measure(Session& session, const EvaluationData& evaluation, const Env& env);

// A failing candidate is a Trial that says why: this is one of the three places that catch.
// Interruptions pass through.
Trial evaluate(const Model& model, Trial trial, Runner& runner, const EvaluationData& evaluation, const Env& env);

// Model files, timed in turn: all are loaded, then 30 rounds after one to warm up run each once on the same sample.
// What fails, an interruption too, leaves no latencies but the reason.
struct TimedFiles {
  std::vector<Latency> latencies;
  std::string failure;
};
TimedFiles time_in_turn(const std::vector<std::string>& files, Runner& runner, const EvaluationData& evaluation,
                        const Env& env);

}  // namespace seqto::internal
