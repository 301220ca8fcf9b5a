// Room: metrics. Two models compared, with limits on what may differ; integer layers under exact arithmetic.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/env.h"
#include "seqto/metrics.h"
#include "seqto/runner.h"
#include "seqto/target.h"

namespace seqto {

// --- The figures of a model by their names, and limits that they have to keep

struct Figure {
  double value = 0;
  std::optional<Interval> interval;  // of 95 %, where one was taken
  bool higher_is_better = false;
};

// The end of its interval that is worse, or the value where it has none.
double worse_end(const Figure& figure, bool high_is_worse);

// "size_bytes", "size_ratio", "latency_ns", "latency_ratio", "decode_latency_ns", "decode_latency_ratio", the losses
// ("kl" ...), task metrics ("top1" ...), and "top1_drop" ...: how much worse a metric is than the reference's. Ratios
// are to the reference, the float model.
using Figures = std::map<std::string, Figure>;
// Of a measurement; ratios and drops are to the float model's. What was not measured, is not a number, or is a drop
// from a score of 0, is left out. Intervals are the measurement's; drops have the paired difference's, latencies the
// spread of the runs.
Figures figures_of(const Measurement& measurement, const Measurement& baseline);
// By its name alone: true for metrics that are shares of right answers.
bool higher_is_better(const std::string& figure);

struct Limit {
  std::string figure;  // of Figures, or kUnnamedLoss
  double bound = 0;
  bool at_most = true;   // else at least
  std::string asked_by;  // "--max-size", the lock file's name
};
// A loss whose name nobody gave: the one of the task (task.h), or that a search went by.
inline constexpr char kUnnamedLoss[] = "loss";
// `limits` with `loss` for it.
// Throws Error{kUsage} for a bound that is more than a share of 1 can be.
std::vector<Limit> with_loss(std::span<const Limit> limits, const std::string& loss);
struct CheckedLimit {
  Limit limit;
  Figure found;
  bool met = false;
  double excess() const { return limit.at_most ? found.value - limit.bound : limit.bound - found.value; }
};

struct GateOptions {
  // A limit is met only where the whole interval of the figure is on its good side.
  bool confident = false;
};
// Each limit in turn, all of them named. Not a number meets no limit. Throws Error{kInvalidInput} naming the figures
// that there are where one was not measured, and where the float model scores 0 in what may not drop.
std::vector<CheckedLimit> check(const Figures& figures, std::span<const Limit> limits, const GateOptions& = {});

// --- Parity: whether two models give the same outputs on the same inputs

struct ParityOptions {
  double abs_tol = 0.06;   // the largest difference that any single value may have
  double mean_tol = 0.02;  // the largest mean of the differences of an output
  // Below this share of samples with the same first class an output fails; 0: not asked.
  double min_top1_agreement = 0;
  size_t worst = 5;  // samples listed
  // --- how well both do their task; with either of these all answers are kept in memory
  MetricOptions metrics;
  Metrics own_metrics;        // the caller's
  std::vector<Limit> limits;  // on the candidate's figures_of(): losses, task metrics, their drops
  GateOptions gate;
};

// Values that cannot be subtracted.
struct NonFinite {
  int64_t nan = 0, infinite = 0;
};

// One output over all samples. A difference is |reference - candidate|, in double; equal infinities differ by 0. What
// else is not finite on either side counts in `incomparable` alone. Positions that Sample::counted hides do not count.
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

// Losses, and task metrics: what labels give, and what was asked for.
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
// size differs. With metrics and limits also as Metric::score() and check(), and where the first output is not float.
Parity validate(const ParitySide& reference, const ParitySide& candidate, const ParityOptions& = {}, const Env& = {});
// The same, without metrics and limits, against what the data say that the model answered (Sample::expected: ONNX's
// test data); `reference` is then the word "the data". Throws Error{kInvalidInput} where they do not tell every output.
Parity validate_expected(const ParitySide& candidate, const ParityOptions& = {}, const Env& = {});

// --- Invariance: whether a sample's answer depends on what it is computed with. docs/reference/validate.md

// A node of the model's graph, and the first of its outputs that a sample's surroundings change.
struct FirstDifference {
  std::string node, op_type, tensor;
  std::string sample;      // that it was found with: the variation's worst
  double max_abs = 0;      // the largest difference of a value of the tensor
  double largest_abs = 0;  // the largest value that it has alone
};

// All samples computed in another way than each alone.
struct Variation {
  std::string kind;          // "batch", "order" (a batch in reversed order), "padding", "padding_in_front", "threads"
  int64_t size = 0;          // samples of a batch; positions that each is filled up to; threads
  std::string left_out;      // why it was not tried; empty: it was
  int64_t changed = 0;       // samples with an output of other bits
  double max_abs = 0;        // the largest difference of a value
  double worst_cosine = 1;   // of a sample's output, all its positions together
  std::string worst_sample;  // whose cosine that is; empty: nothing changed
  std::set<std::string> not_compared;  // outputs whose first axis does not hold the samples
  // In graph order, with the runtime's optimizations off. Absent where that gives the worst sample the same bits: the
  // difference comes from the kernels of the optimized graph.
  std::optional<FirstDifference> first;
};
struct Invariance {
  std::string model, runner;
  int64_t samples = 0;
  std::vector<Variation> variations;
};
// Whether the first node finds a scale while it runs (DynamicQuantizeLinear ...): other schemes do without.
bool begins_at_a_scale(const Variation& variation);
// Nothing changed; with padding in front, nothing that begins at a scale.
bool passed(const Variation& variation);
bool passed(const Invariance& invariance);  // all of them

struct InvarianceOptions {
  std::vector<int64_t> batches{2, 8, 64};
  int64_t padding = 0;      // positions that each sample is filled up to; 0: those of the longest
  Runner* other = nullptr;  // a device with other threads; null: not tried
  int64_t other_threads = 0;
};
// Positions that the input attention_mask hides at the end are cut off first: alone, each sample has its own length. In
// a batch the shorter ones are filled up with 0, which the mask hides; without such an input only samples of one shape
// share a batch. In front samples are filled up, and hidden positions cut off, where the model has position_ids or sums
// up the mask (CumSum): other models take the padding for positions. Of an output [batch, ...] as much counts of each
// axis as a sample has alone. Throws Error{kInvalidInput} where there are no two samples, and what load_file() and
// run() throw.
Invariance find_variations(const ParitySide& model, const InvarianceOptions& = {}, const Env& = {});

// --- Does a quantized model give on other processors what it gives here? docs/reference/audit.md
//
// x86 without VNNI multiplies unsigned activations and signed weights with vpmaddubsw, which adds two neighbouring
// products in 16 bits and saturates. VNNI, AMX and ARM's dot products add in 32 bits, exactly. Both are emulated.

// A Conv, Gemm or MatMul that the runtime computes in int8.
struct AuditedLayer {
  LayerId name;
  std::string op_type;
  // The largest sum that any input could give: of two neighbouring products, or of all with an Arithmetic. Above the
  // limit it can saturate.
  int64_t largest_sum = 0, limit = 32767;
  bool can_saturate() const { return largest_sum > limit; }
  // On the samples, in the saturating model: sums of pairs (with an Arithmetic those after each product), those that
  // were cut off; outputs, those with such a sum in them. 0 where the layer cannot saturate.
  int64_t pairs = 0, saturated_pairs = 0;
  int64_t outputs = 0, saturated_outputs = 0;
  // Where it can: share of the runtime's own outputs that the exact emulation gives as well, from the same inputs.
  double equal_to_runtime = 1;
  // Why the kernel is exact everywhere, where it is for another reason than its weights: "depthwise", "weights uint8".
  std::string exact_because;
  // Why the runtime computes it under every arithmetic; empty where it is emulated.
  std::string not_emulated_because;
  bool is_emulated() const { return not_emulated_because.empty(); }
};

struct Audit {
  std::string model, reference;  // paths; an empty reference: the runtime's outputs of the model itself
  std::string runner, machine;
  int64_t samples = 0;
  bool random_inputs = false;
  std::string target;  // that was emulated; empty: x86 without VNNI
  // Losses against the reference, with intervals; task metrics where there are labels. `runtime`: as it ran here.
  // `exact`, `saturating`: with sums as large as they get, and as they are cut off; both rounded as the target does.
  Measurement runtime, exact, saturating;
  std::string loss = "kl";           // that the outputs call for: of the task
  std::vector<AuditedLayer> layers;  // in graph order
  // The model's own schemes, or the plan that was given, with reduce_range for those layers that saturated enough.
  Plan proposal;
  std::vector<LayerId> proposed;  // these layers
};

struct AuditOptions {
  // The model's, or that of the float model it came from: beside it exporters say what it is for (task.h). Empty: not
  // known.
  std::filesystem::path file;
  // Of the device that is emulated; absent: x86 without VNNI. docs/reference/audit.md says what is emulated of it.
  std::optional<Arithmetic> arithmetic;
  std::optional<Plan> plan;  // that the model was made by; absent: as it is read off the model
  // Share of a layer's outputs from which reduce_range is proposed for it: 7 bits have a loss of their own, which a few
  // saturated outputs may not be worth. 0: one is enough.
  double min_saturated = 0;
};

// What a float model answers to the samples: all of its float outputs, or lists of boxes as rows (Outputs::maker).
// Throws Error{kInvalidInput} where the first is none.
Outputs reference_outputs(const Model& model, const SampleRun& on, const std::filesystem::path& file = {});
// What another model answers, in the form of the reference's rows.
Outputs outputs_like(const Outputs& reference, Session& session, const SampleRun& on);

// `model` is in QDQ form. `reference`: reference_outputs() on the same samples; empty: none.
// Every sample is run once for each layer in a row that can saturate, and multiplied twice by plain code: seconds a
// sample for a big model. A model without int8 layers is the same everywhere. Throws Error{kInvalidInput} where the
// first output is not float.
Audit audit(const Model& model, const SampleRun& on, const Outputs& reference = {}, const AuditOptions& options = {});

// --- What does float16 cost on a device that computes in it?
//
// Every tensor is rounded to float16 where the graph has it so, sums are added in float32, as tensor cores do: node by
// node, since a runtime on a CPU leaves such roundings out.

struct Float16Layer {
  LayerId name;
  std::string op_type;
  double largest = 0;                  // magnitude of its outputs, on the samples
  double overflow = 0, underflow = 0;  // shares of its outputs' values beyond 65504, and not 0 but at most 2^-25
  double accumulation = 0;             // of products: expected relative error where sums are added in float16 as well
  std::string overflows;               // the first tensor, an output before an input, with a value beyond; empty: none
  std::string underflows;              // with more than one value in a thousand that becomes 0
};

struct Float16Audit {
  std::string model, runner;
  int64_t samples = 0;
  bool random_inputs = false;
  std::string loss = "kl";
  std::vector<Float16Layer> layers;  // in graph order
  Measurement all, mixed;            // against the float32 model: every layer in float16; the proposal
  // Float16 but for layers with `overflows`, and for those with `underflows` that the answers need: where without all
  // of these at most a tenth of the loss is left, and those that do not double that are in float16 again.
  Plan proposal;
  std::vector<LayerId> in_float32;  // these
};
// Throws Error{kInvalidInput} where the model is not in float32 or its first output not float, and what load() and
// run() throw.
Float16Audit audit_float16(const Model& model, const SampleRun& on);

}  // namespace seqto
