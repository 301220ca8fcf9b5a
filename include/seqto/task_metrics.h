// Room: metrics. How well a model does its task: a metric compares what it answers with what the data say is right.
// See docs/metrics.md.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/metrics.h"

namespace seqto {

// What is to be found in one sample.
struct Truth {
  int64_t label = -1;                     // -1: not known
  std::vector<float> target;              // empty: not known
  std::optional<std::vector<Box>> boxes;  // absent: not known
};
Truth truth_of(const Sample& sample);

// All outputs of a model over the samples.
struct Answers {
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> dims;  // of each output, for one sample: a batch of 1 included
  std::vector<Outputs> outputs;            // of one length each

  explicit Answers(std::vector<std::string> output_names = {}) : names(std::move(output_names)) {}
  // One sample more. Throws Error{kInvalidInput} where an output is no tensor of numbers, or changes its size.
  void append(std::span<const Tensor> tensors);
  int64_t rows() const { return outputs.empty() ? 0 : outputs[0].rows; }
};

struct Score {
  double value = 0;
  // How far it can be trusted, one of: the samples' own values, where it is their mean; what it is on resamples of the
  // samples, as for_each_resample() draws them, as many for all models; nothing.
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
  // "accuracy" (top1 by another name), "mae", "rmse", "nme", "nme=FILE.json", "map50=FILE.json"; the file says how
  // outputs are read.
  std::vector<std::string> metrics;
  // Of the user's own: "NAME:max:COMMAND", "NAME:min:COMMAND" says which is better. The shell gets COMMAND with the
  // paths of two .npz behind it, the float model's outputs and the candidate's; the last line that it prints is the
  // number.
  std::vector<std::string> commands;
  double timeout_seconds = 600;  // of a command; 0: no limit
  // Runs of each command more, on resamples of the samples, for the interval of its figure and of differences; 0: none.
  int command_resamples = 0;
  bool empty() const { return metrics.empty() && commands.empty(); }
};
// The names that MetricOptions::metrics may begin with.
std::vector<std::string> task_metric_names();
// Throws Error{kUsage} for an unknown name, or one without the file that it needs, and a command without its parts;
// Error{kInvalidInput} for what is wrong in that file.
Metrics make_metrics(const MetricOptions& options);
// What the metrics are, for telling one study from another: names, and hashes of files.
std::string metric_options_to_json(const MetricOptions& options);

// Adds each metric's value, interval and what pairs it to `measurement`.
void measure_task(Measurement& measurement, const Metrics& metrics, const Answers& answers, const Answers& reference,
                  std::span<const Truth> truths);

}  // namespace seqto
