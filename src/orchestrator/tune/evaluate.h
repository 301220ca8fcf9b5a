// Room: orchestrator/tune. One candidate: load it, run it on the evaluation samples, measure.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/task/detections.h"
#include "metrics/written_errors.h"
#include "orchestrator/tune/prefixes.h"
#include "runner/text/decode_step.h"
#include "seqto/env.h"
#include "seqto/metrics.h"
#include "seqto/runner.h"
#include "seqto/search.h"
#include "seqto/target.h"

namespace seqto::internal {

inline constexpr size_t kTimedPrompts = 8;  // the step behind each is timed

struct EvaluationData {
  const Dataset* data = nullptr;
  std::vector<int64_t> samples;
  std::vector<int64_t> labels;       // one per sample; empty: no labels
  size_t chunk_samples = 1;          // that travel to the device together
  bool warm_up = true;               // where latencies matter: the runtime's first run is slow
  bool pools = false;                // the measurements have a pooled_kl
  std::optional<DecodeStep> decode;  // of a decoder that remembers: the measurements have a decode_latency
  Outputs form;                      // without rows: how answers are read
  Outputs reference;                 // the float model's outputs on the samples; empty while that is made
  std::vector<std::string> paired;   // losses that candidates are compared in sample by sample
  // --- of a detector whose outputs are understood
  std::optional<Decoder> detector;
  std::optional<ScoreRange> float_scores;  // of the float model; absent while they are found
  // --- task metrics that were asked for
  Metrics metrics;
  std::vector<Truth> truths;                   // one per sample
  std::shared_ptr<const Answers> all_outputs;  // of the float model; null while they are made
  // --- of an encoder and its decoder whose texts judge them
  const WrittenErrors* texts = nullptr;
};

// A device of the study, and what candidates are measured with there.
struct Place {
  std::string device;
  Runner* runner;
  EvaluationData evaluation;
  EvaluationData search, acceptance;  // of the study's first device; empty for strategies that do without

  const EvaluationData& on(Part part) const {
    return part == Part::kSearch ? search : part == Part::kAcceptance ? acceptance : evaluation;
  }
};

Outputs first_rows(const Outputs& outputs, int64_t rows);
// What to tell of `kl` where each row is a set of probabilities already; else null.
const char* note_on_kl(const Outputs& outputs);

// Of its samples: labels, and where there are metrics all that the data say.
void read_truths(EvaluationData& evaluation, Metrics metrics);

// Adds what the texts tell, where they judge.
void measure_texts(Measurement& measurement, const Model& model, const Place& place, const Env& env);

// Throws Error{kInvalidInput} where a task metric among the objectives was not measured on the part of that name.
void require_metrics(const Measurement& measurement, std::span<const std::string> objectives, const char* part);

// Orders the samples by how sure the reference is of its class, the least sure first: to second order, noise on the
// logits costs KL in proportion to 1 - sum(p^2). The mean over them all stays what it is.
void put_uncertain_first(EvaluationData& evaluation);

struct Evaluated {
  Measurement measurement;
  std::optional<ScoreRange> scores;  // of a detector
  Outputs outputs;
  std::shared_ptr<const Answers> all_outputs;  // where there are metrics
};

// What ends a measurement early.
struct InRace {
  const Race& race;
  int64_t size_bytes = 0;  // of the candidate
};

// Throws what the runner throws. To warm up, the first sample is run twice. In a race, asked after each chunk of
// samples, the measurement may be of the first samples alone: as many as its `samples` are. `inputs`: what a session of
// the graph's end reads, in place of the evaluation's own.
Evaluated measure(Session& session, const EvaluationData& evaluation, const Env& env,
                  std::optional<InRace> race = std::nullopt, const Dataset* inputs = nullptr);

// Models timed in turn, so that whatever slows the machine down slows all of them alike.
// Nanoseconds of each session, round after round while `goes_on` says so of the next; round 0 warms up and is not
// among them. `inputs` gives those of a round. Each runs twice and the second run counts, as in a program that runs one
// model alone: after two dozen others the caches hold nothing of it.
std::vector<std::vector<int64_t>> times_in_turn(std::span<const std::unique_ptr<Session>> sessions,
                                                const std::function<std::vector<Tensor>(int64_t round)>& inputs,
                                                const std::function<bool(int64_t round)>& goes_on);

// Of a reference that has figures, on all devices.
void leave_out_of_front(Trial& trial, const std::string& why);

struct Evaluation {
  std::span<const Place> places;
  const Env& env;
  const Prefixes* prefixes = nullptr;  // of the search samples, where a candidate may be run from a cut on
  const Target* target = nullptr;      // that candidates have to be taken by
  bool is_reference = false;           // what others are compared with has figures, even where it finds nothing
};

// A failing candidate is a Trial that says why: this is one of the few places that catch.
// Interruptions pass through, and a device that is gone. On one device after the other, the study's first first;
// samples that only the search looks at are run on that alone. Any number of candidates may be evaluated at a time.
Trial evaluate(const Model& model, Trial trial, const Evaluation& on, const std::optional<Race>& race = std::nullopt);

}  // namespace seqto::internal
