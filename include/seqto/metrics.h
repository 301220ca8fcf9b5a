// Room: metrics. What candidates are measured by: losses, latency, task metrics; trials and studies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/plan.h"
#include "seqto/quantize.h"
#include "seqto/statistics.h"

namespace seqto {

// --- Losses against the float model, task accuracy, latency; Measurement, Trial and Study

// How an embedding is read: one vector of length 1 for each sample.
enum class Pooling {
  kNone,   // it is none: the output counts as it is
  kWhole,  // of all values of the output
  kMean,   // of the features of the counted positions, [1, positions, features]
  kFirst,  // of the first of these positions, as [CLS]
  kLast,   // of the last
};
std::string_view to_string(Pooling pooling);   // "none", "whole", "mean", "first", "last"
Pooling parse_pooling(std::string_view name);  // throws Error{kUsage}, also for "none"

// Makes one row of all outputs of a sample where no output is one: of detectors that answer with a list of boxes, as
// many as they find and in any order. Any thread.
class RowMaker {
 public:
  virtual ~RowMaker() = default;
  // As long for every sample. Throws Error{kInvalidInput} where the outputs have another form than the float model's.
  virtual std::vector<float> row(std::span<const Tensor> answers) const = 0;
};

// One row per sample: the model's first output, flattened. Rows of sequences may differ in length: [1, tokens,
// classes].
struct Outputs {
  int64_t rows = 0, columns = 0;  // columns: values of a row, of the longest where they differ
  std::vector<float> values;      // row after row
  std::vector<int64_t> dims;      // of a sample's output, the last one's where they differ; empty: not known
  std::vector<size_t> ends;       // of each row among the values; empty: all rows are as long
  size_t place = 0;               // among the model's outputs
  Pooling pooling = Pooling::kNone;
  std::shared_ptr<const RowMaker> maker;  // of the rows; null: they are the first output's values
  bool classes_second = false;     // [1, classes, rows, columns] is taken as [1, rows, columns, classes]: by pixel
  bool labels = false;             // whole numbers, as of ArgMax: each is a row, whose class is equal or not
  std::vector<std::string> names;  // of the model's answers; empty: not known
  std::vector<Outputs> others;     // the model's further outputs of the kind that have the same dims for every sample
  Outputs without_rows() const;    // answers are read into it as into this
  std::span<const float> row(int64_t i) const;
  // How many values one set of class scores has: all of a sample's. Where more than one axis of its output is longer
  // than 1, the last axis is one: [1, tokens, classes] is a row for each token.
  int64_t classes() const;
  // Throws Error{kInvalidInput} for a row of another length than before, but where the dims are those of a sequence and
  // the row is a whole number of positions.
  void append(std::span<const float> row);
  void append_of_any_length(std::span<const float> row);
};

// Means over the samples; every one is 0 for equal outputs. Those of classes are, in a sample, means over its rows of
// class scores (Outputs::classes).
struct Losses {
  double kl = 0;                  // KL(softmax(float) || softmax(candidate)), nats
  double top1_disagreement = 0;   // share of rows whose first class differs
  double top5_disagreement = 0;   // share of rows whose sets of first five differ
  double rank_dissimilarity = 0;  // (1 - weightedtau of the two top-5 lists) / 2, as published
  double mse = 0;
  double cosine = 0;  // 1 - cosine similarity
  // Normalized mean squared error: the mean over all float outputs and their channels of min(1, sum (found - wanted)^2
  // / S), where S is the mean over the samples of sum (wanted - m)^2, m the mean of the channel, of two axes of the
  // column; at least 1e-7 of that of sum wanted^2. Channels: of more axes the second or the last, the shorter one. So
  // no offset (Kelvins), boxes in pixels or first head hide what others lose. 1: nothing is left of it.
  double nmse = 0;
  // By how much the probability of the float model's first class changes: mean of |p - q| over the rows, p and q being
  // the softmaxes of both.
  double probability_change = 0;
};
Losses compare(const Outputs& reference, const Outputs& candidate);
// Of each sample, and their mean; one in another length than the reference's is wholly wrong. Of candidates that know
// of no dims and no others, `nmse` is of the first output alone, as one channel.
std::vector<Losses> compare_each(const Outputs& reference, const Outputs& candidate);
Losses mean(std::span<const Losses> losses);

// Of the objectives of a search.
std::vector<std::string> loss_names();
std::vector<std::string> cost_names();  // "size", "latency", "decode_latency"
bool is_loss(const std::string& objective);
bool is_cost(const std::string& objective);
bool is_task_metric(const std::string& objective);  // neither a loss nor a cost
// The loss that a search follows: the first of the objectives that is one, else a stand-in for the first task metric,
// which is flat between its steps. It is "kl" for metrics of classes and tokens, "mse" where they read the first
// output's values, "cosine" for embeddings, "nmse" for boxes and commands, which may look at all outputs.
std::string followed_loss(const std::vector<std::string>& objectives);

// The KL that the candidate's noise costs on inputs as sure as the reference's. The candidate has the first of the
// reference's rows (of class scores). To second order, noise d on the logits costs half of its variance under p =
// softmax(reference). Here every row's noise is laid upon every reference; the loudest fifth counts as the next one
// below. Of a few dozen rows a handful, unsure or loud by chance, make up most of the mean KL; this is the mean over
// all pairs. It ranks candidates by what they lose on other samples better than their
// KL does (docs/design/search.md). Nothing where something is not finite, or the pairs are too many.
std::optional<double> pooled_kl(const Outputs& reference, const Outputs& candidate);

// Task metrics from labels: top1, top5 (shares), f1 (macro). Samples with label -1 do not count; empty without labels.
std::map<std::string, double> task_metrics(const Outputs& outputs, std::span<const int64_t> labels);

// scipy.stats.weightedtau(x, y) with its defaults (rank=True, hyperbolic, additive); NaN for constant input.
double weighted_tau(std::span<const double> x, std::span<const double> y);

// The time over that of another model, of rounds in which both ran in turn, with its interval of 95 %.
struct LatencyRatio {
  double value = 1;
  Interval interval;
};
struct Latency {
  int64_t median_ns = 0, p10_ns = 0, p90_ns = 0;
  std::optional<LatencyRatio> over_float;  // nothing where it was not timed in turn with the float model
};
Latency summarize_latency(std::vector<int64_t> sample_ns);

constexpr double kSame = 0.05;                 // sizes and times whose ratio is so near to 1 are called the same
enum class Speed { kFaster, kSlower, kSame };  // kSame: cannot be told apart
std::string_view to_string(Speed speed);       // "faster", "slower", "same"

// Of a latency beside float's. Not kSame only beyond kSame and beyond chance: where the interval of over_float does not
// hold 1, nor p10 within kSame; else, where nine runs in ten of one take longer than nine in ten of the other.
Speed speed_of(const Latency& latency, const Latency& of_float);
// over_float, else the ratio of the medians, which are of other moments; 1 where either was not timed.
double ratio_of(const Latency& latency, const Latency& of_float);

// The KL of single rows of class scores, as of tokens: what their mean hides. Nats.
struct RowLosses {
  double q99 = 0, q999 = 0, largest = 0;  // over the rows of all samples
  int64_t width = 1;                      // positions that are taken together
  std::vector<double> by_position;        // mean over the samples of the first `width` positions, the next ...
};
// What the mean over the outputs hides: the one that loses most.
struct WorstOutput {
  std::string name;     // empty: not known
  double nmse = 0;      // of it alone, over the samples
  int64_t outputs = 0;  // among so many
};
struct Measurement {
  int64_t size_bytes = 0;
  Latency latency;                        // per sample
  std::optional<Latency> decode_latency;  // of one more token behind a sample, where the model remembers the others
  Losses losses;
  std::optional<double> pooled_kl;          // on samples that only a search for latency looks at
  std::optional<RowLosses> kl_rows;         // nothing where samples have one row each, or are embeddings
  std::optional<WorstOutput> worst_output;  // nothing where nmse is of one output
  std::map<std::string, double> metrics;
  std::set<std::string> lower_is_better;  // those of them that are errors
  // Which samples are alike, and drawn together for intervals and differences: of blocks_of(). To be set before what
  // follows is measured; empty: all stand alone.
  Blocks blocks;
  // Of losses and metrics, by name.
  std::map<std::string, Interval> intervals;
  // What pairs two candidates by sample, to six digits: "kl", "top1_disagreement", losses asked for; "other_shape" (1:
  // not float's; absent: none is); with labels "top1" and "top5" (1: right); metrics that are means.
  std::map<std::string, std::vector<double>> samples;
  // What pairs them in other metrics ("f1"): their values on resamples of the samples, to six digits.
  std::map<std::string, std::vector<double>> replicates;
};
// `loss` as a search goes by it, where `found` is its mean on a measurement's samples: of "kl" the geometric mean of
// that and pooled_kl, where there is one.
double steady_loss(const Measurement& measurement, const std::string& loss, double found);
// Losses, metrics, intervals and samples of outputs on the samples of `reference`; `labels` may be empty. `paired`:
// losses whose samples are kept as well.
void measure_outputs(Measurement& measurement, const Outputs& reference, const Outputs& outputs,
                     std::span<const int64_t> labels, std::span<const std::string> paired = {});
// How much worse a task metric of both is than the baseline's, whichever direction is worse; below 0: better.
double drop(const Measurement& measurement, const Measurement& baseline, const std::string& metric);

// One figure of several measurements of the same samples, compared in pairs; the resamples are drawn once for all.
class PairedFigure {
 public:
  PairedFigure(std::span<const Measurement* const> of, const std::string& name);
  // The 95 % interval of the figure of `of`[a] less the figure of `of`[b]. Nothing where one of them has neither
  // `samples` nor `replicates` of the name, or not as many as the other.
  std::optional<Interval> difference(size_t a, size_t b) const;

 private:
  std::vector<size_t> sizes_;                   // of what was resampled
  std::vector<std::vector<double>> resampled_;  // the figure on each resample; empty: nothing pairs it
};
// Of two.
std::optional<Interval> paired_difference(const Measurement& a, const Measurement& b, const std::string& name);
// McNemar's test on the labels: small where a and b are not equally often right. Nothing without labels.
std::optional<double> mcnemar(const Measurement& a, const Measurement& b);

// The parts of the data that a study measures on; no sample is in two of them, or in the calibration's.
enum class Part {
  kEvaluation,  // what is reported
  kSearch,      // what the search looks at
  kAcceptance,  // fresh samples for what it found
};
std::string_view to_string(Part part);   // "evaluation", "search", "acceptance"
Part parse_part(std::string_view name);  // throws Error{kInvalidInput}

// What a candidate came to on one device.
struct Outcome {
  std::optional<Measurement> measurement;  // absent: failed
  std::string failure;                     // why
};

// One candidate, evaluated or failed.
struct Trial {
  std::string id;      // "float", "full" or the hash of the plan as its file says it
  int64_t number = 0;  // position in the study
  Plan plan;
  std::vector<std::string> excluded;  // what the strategy excluded, in its order
  Part part = Part::kEvaluation;      // of the samples it was measured on
  std::string step;                   // of the strategy that proposed it: "one-in", "chain", "swap" ...; may be empty
  // On the study's first device, which the search follows.
  std::optional<Measurement> measurement;    // absent: failed
  std::string failure;                       // why; of "float", "published" and "full" also why it is no candidate
  std::map<std::string, Outcome> elsewhere;  // on the others, by their names
};
std::string trial_to_json(const Trial& trial);  // one line
Trial trial_from_json(const std::string& line);

// Figures of a study that identify it: resumed only when they are equal.
struct StudyHeader {
  std::string model_path;  // not compared: a model may be moved
  std::string model_sha256;
  int64_t model_size_bytes = 0;
  std::string data_fingerprint;
  std::string options_json;      // everything that shapes the trials
  std::string environment_json;  // host, runtime, threads, version; not compared
  int64_t calibration_samples = 0, search_samples = 0, evaluation_samples = 0;
};

// Where the files of a study lie: docs/reference/formats.md. Candidates go by their ids.
struct StudyFolder {
  static constexpr const char* kSelected = "models/selected.onnx";  // as summaries name it

  std::filesystem::path path;

  std::filesystem::path study() const { return path / "study.jsonl"; }
  std::filesystem::path summary() const { return path / "summary.json"; }
  std::filesystem::path report() const { return path / "report.html"; }
  std::filesystem::path models() const { return path / "models"; }
  std::filesystem::path model(const std::string& id) const { return models() / (id + ".onnx"); }
  std::filesystem::path plans() const { return path / "plans"; }
  std::filesystem::path plan(const std::string& id) const { return plans() / (id + ".json"); }
  std::filesystem::path selected() const { return path / kSelected; }
  std::filesystem::path selected_pair() const { return models() / "selected"; }  // an encoder and its decoder
  std::filesystem::path prepared() const { return path / "prepared.onnx"; }      // the model, where tune prepared it
  std::filesystem::path pair() const { return path / "pair.onnx"; }              // encoder and decoder as one
};

// An append-only JSON-lines file: first the header, then notes (sensitivity) and trials, each written whole and
// flushed before append() returns. A torn last line (the process was killed) is cut off on open.
class Study {
 public:
  // Opens DIR/study.jsonl, creating it with `header` when absent.
  // Throws Error{kInvalidInput} when it is a study of something else, naming what differs. Also when DIR is not
  // writable, or when another Study, in this process or another, has the file open.
  static Study open(const std::filesystem::path& file, const StudyHeader& header);
  // Reads without the right to append; for reports.
  static Study read(const std::filesystem::path& file);

  Study(Study&&) noexcept;
  Study& operator=(Study&&) noexcept;
  ~Study();

  const StudyHeader& header() const { return header_; }
  const std::vector<Trial>& trials() const { return trials_; }
  // The last of that id on these samples, or null; append() invalidates it.
  const Trial* find(const std::string& id, Part part = Part::kEvaluation) const;
  void append(Trial trial);  // numbers it
  // Values beside the trials, kept by name: ranges, sensitivity. The JSON text must be one line.
  void note(const std::string& name, const std::string& json);
  const std::string* noted(const std::string& name) const;

 private:
  StudyHeader header_;
  std::vector<Trial> trials_;
  std::map<std::string, std::string> notes_;
  class File;
  Study();
  size_t parse(std::string_view text, const std::string& name);  // returns the bytes of the whole lines

  std::unique_ptr<File> file_;  // locked and open for appending; null after read()
};

// --- How well a model does its task: a metric compares what it answers with what the data say is right
// See docs/reference/metrics.md.

// What is to be found in one sample.
struct Truth {
  int64_t label = -1;                     // -1: not known
  std::vector<float> target;              // empty: not known
  std::optional<std::vector<Box>> boxes;  // absent: not known
  std::optional<std::string> transcript;  // absent: not known
  std::vector<int64_t> tokens;            // that the sample consists of: each is the truth of the position before it
  Origin origin;
};
Truth truth_of(const Sample& sample);

// All outputs of a model over the samples.
struct Answers {
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> dims;  // of each output, for one sample: a batch of 1 included
  std::vector<Outputs> outputs;            // of one length each
  size_t first = 0;  // the output that metrics of one read: the first of floats, as losses do; of none the first

  explicit Answers(std::vector<std::string> output_names = {}) : names(std::move(output_names)) {}
  // One sample more, of any shape; of outputs of positions the counted ones (Sample::counted). Throws
  // Error{kInvalidInput} where an output is no tensor of numbers.
  void append(std::span<const Tensor> tensors, std::span<const char> counted = {});
  int64_t rows() const { return outputs.empty() ? 0 : outputs[0].rows; }
  // Throws Error{kInvalidInput} where an output is of several lengths, which `asked_by`, as "[run]", does not take.
  void require_one_length(const std::string& asked_by) const;
  // The shape of an output's values as one array over all samples: an axis of 1 for the batch gives way to theirs.
  // Throws Error{kInvalidInput} where samples are of several lengths, or lack the positions that a mask leaves out.
  std::vector<int64_t> array_shape(size_t output, const std::string& asked_by) const;
};

struct Score {
  double value = 0;
  // How far it can be trusted. Either the samples' own values, where it is their mean; or what it is on resamples of
  // the samples, as for_each_resample() draws them by the blocks of their origins, as many for all models; or nothing.
  std::vector<double> samples, replicates;
};

// Thread-safe.
class Metric {
 public:
  virtual ~Metric() = default;
  virtual const std::string& name() const = 0;
  virtual bool higher_is_better() const = 0;
  // Of `answers`; `reference` are the float model's on the same samples. Samples whose truth is not known do not count.
  // Throws Error{kInvalidInput} where no sample's is, or the outputs are not of the form that the metric reads.
  virtual Score score(const Answers& answers, const Answers& reference, std::span<const Truth> truths) const = 0;
};
using Metrics = std::vector<std::shared_ptr<const Metric>>;

struct MetricOptions {
  // What the model is for: the name of a Task (task.h), which says how outputs are read and which loss counts. Empty:
  // as the model and its first answer look.
  std::string task;
  // Of the task embed: "mean", "first" or "last" of the positions, "whole" where the output is one vector. Empty: as
  // 1_Pooling/config.json beside the model says, else the mean.
  std::string pooling;
  // Of the task detect: how boxes are read where no file says it, JSON as that file's. Empty: not known.
  std::string detector;
  // "accuracy" (top1 by another name), "perplexity", "topk_overlap", "mae", "rmse", "wer=VOCAB", "cer=VOCAB"; "nme" and
  // "map50", "map50_95", perhaps with "keypoint_" or "mask_" in front, alone or with =FILE.json: how outputs are read.
  std::vector<std::string> metrics;
  // Of the user's own: "NAME:max:COMMAND", "NAME:min:COMMAND" says which is better. The shell gets COMMAND with the
  // paths of two .npz behind it, the float model's outputs and the candidate's; the last line that it prints is the
  // number.
  std::vector<std::string> commands;
  double timeout_seconds = 600;  // of a command; 0: no limit
  // Runs of each command more, on resamples of the samples, for the interval of its figure and of differences; 0: none.
  int command_resamples = 0;
  bool empty() const { return metrics.empty() && commands.empty(); }  // no metric is asked for
};
// The names that MetricOptions::metrics may begin with.
std::vector<std::string> task_metric_names();
// `own`: the caller's, which come last. Throws Error{kUsage} for an unknown name, or one without the file that it
// needs, a command without its parts, and a name of the user's that stands for another figure; Error{kInvalidInput} for
// what is wrong in that file.
Metrics make_metrics(const MetricOptions& options, const Metrics& own = {});
// What the metrics are, for telling one study from another: names, and hashes of files.
std::string metric_options_to_json(const MetricOptions& options);

// Adds each metric's value, interval and what pairs it to `measurement`.
void measure_task(Measurement& measurement, const Metrics& metrics, const Answers& answers, const Answers& reference,
                  std::span<const Truth> truths);

}  // namespace seqto
