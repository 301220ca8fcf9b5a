// Room: metrics. Parity: whether two models give the same outputs on the same inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/limits.h"
#include "seqto/runner.h"
#include "seqto/task_metrics.h"

namespace seqto {

struct ParityOptions {
  double abs_tol = 0.06;   // the largest difference that any single value may have
  double mean_tol = 0.02;  // the largest mean of the differences of an output
  // Below this share of samples with the same first class an output fails; 0: not asked.
  double min_top1_agreement = 0;
  size_t worst = 5;  // samples listed
  // --- how well both do their task; with either of these all answers are kept in memory
  Metrics metrics;
  std::vector<Limit> limits;  // on the candidate's figures_of(): losses, task metrics, their drops
  GateOptions gate;
};

// Values that cannot be subtracted.
struct NonFinite {
  int64_t nan = 0, infinite = 0;
};

// One output over all samples. A difference is |reference - candidate|, in double; equal infinities differ by 0, and
// what else is not finite on either side is counted in `incomparable` and in no difference.
struct OutputParity {
  std::string name;
  int64_t values = 0;  // of one sample; of the last, where it changes
  double max_abs = 0, mean_abs = 0;
  // Where max_abs was found.
  std::string max_sample;
  int64_t max_index = 0;  // in the flattened output
  double max_reference = 0, max_candidate = 0;
  // Share of samples whose largest value is at the same place, for outputs like scores of classes: float, one axis
  // longer than 1. For integer outputs the share of samples with equal values. Absent for all others.
  std::optional<double> top1_agreement;
  NonFinite reference, candidate;
  int64_t incomparable = 0;
  std::string first_incomparable;  // name of its sample
};

struct SampleParity {
  int64_t index = 0;
  std::string name, output;  // the output with the largest difference
  double max_abs = 0, mean_abs = 0;
  int64_t incomparable = 0;
};

// Losses, and task metrics: those of labels, and those that were asked for.
struct TaskParity {
  Measurement reference, candidate;
  std::map<std::string, Figure> drops;  // how much worse each metric is, with the interval of the paired difference
  std::optional<double> mcnemar;        // of "top1": small where one is right more often than chance explains
  std::vector<CheckedLimit> limits;
};

struct Parity {
  std::string reference, candidate;                // paths
  std::string reference_runner, candidate_runner;  // descriptions
  int64_t samples = 0;
  bool random_inputs = false;  // Dataset::is_random()
  ParityOptions options;
  std::vector<OutputParity> outputs;
  std::vector<SampleParity> worst;  // worst first; none that are equal
  std::optional<TaskParity> task;   // where metrics or limits were asked for
};
bool passed(const OutputParity& output, const ParityOptions& options);
bool passed(const Parity& parity);  // every output, and every limit

// Throws Error{kInvalidInput} naming what differs: inputs and outputs have to have the same names, in any order, and
// shapes that can be equal; types may differ (a float16 candidate).
void require_same_signature(const Model& reference, const Model& candidate);

// One of the two: a file, the device that runs it, and the samples as its own inputs want them.
struct ParitySide {
  std::string path;
  Runner* runner = nullptr;
  const Dataset* data = nullptr;
};
// Runs both on one sample after the other, all of them; without metrics and limits memory stays constant. Throws
// Error{kInvalidInput} as Runner::load_file() and Session::run(), and where an output is no tensor of numbers or its
// size differs; with metrics and limits as Metric::score() and check(), and where the first output is not float.
Parity validate(const ParitySide& reference, const ParitySide& candidate, const ParityOptions& = {}, const Env& = {});
// The same, without metrics and limits, against what the data say that the model answered (Sample::expected: ONNX's
// test data); `reference` is then the word "the data". Throws Error{kInvalidInput} where they do not tell every output.
Parity validate_expected(const ParitySide& candidate, const ParityOptions& = {}, const Env& = {});

}  // namespace seqto
