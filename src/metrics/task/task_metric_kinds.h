// The metrics that seqto brings, and what they share.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "seqto/metrics.h"

namespace seqto::internal {

// A metric's name and direction.
class NamedMetric : public Metric {
 public:
  NamedMetric(std::string name, bool higher_is_better) : name_(std::move(name)), higher_is_better_(higher_is_better) {}
  const std::string& name() const override { return name_; }
  bool higher_is_better() const override { return higher_is_better_; }

 private:
  std::string name_;
  bool higher_is_better_;
};

// What is known of a metric by its name.
struct MetricKind {
  bool needs_file = false, takes_file = false, higher_is_better = false;
  bool of_objects = false;  // average precision of boxes, keypoints or masks
  bool of_texts = false;    // what the scores of each frame are read as
  std::function<std::shared_ptr<const Metric>(const std::string& file, const MetricOptions& options)> make;
};
// Null for what is none of task_metric_names(), as users' own.
const MetricKind* metric_kind(const std::string& name);
bool is_average_precision(const std::string& metric);
// Whether what was asked for, "wer=vocab.json", is of what the scores are read as.
bool reads_texts(const std::string& asked);

// Behind an error of data without truths.
inline constexpr const char* kOfFixedBatch =
    "; with a fixed batch above 1 what is known of single items is passed over: export the model with a free batch "
    "dimension";

// Those that need no asking where there are labels.
inline constexpr std::array kLabelMetrics{"top1", "top5", "f1"};

std::shared_ptr<const Metric> make_accuracy();
std::shared_ptr<const Metric> make_mae();
std::shared_ptr<const Metric> make_rmse();
std::shared_ptr<const Metric> make_perplexity();
// Why an output of so many values holds no scores of the next token for each of so many; empty: it does.
std::string no_token_scores(size_t values, size_t tokens);
// kNone: the mean where the first output is [1, positions, features], else the whole.
std::shared_ptr<const Metric> make_topk_overlap(Pooling pooling);
// `file`: JSON that says what distances are divided by; empty: as its defaults.
std::shared_ptr<const Metric> make_nme(const std::string& file);
// "map50" or "map50_95" of boxes, of keypoints or masks with "keypoint_" or "mask_" in front. `file` holds JSON that
// describes the detector's outputs; empty: the JSON `found` does; without both there is no score.
std::shared_ptr<const Metric> make_average_precision(const std::string& name, const std::string& file,
                                                     const std::string& found);
// "wer" or "cer". `file`: the vocabulary of the scores.
std::shared_ptr<const Metric> make_error_rate(std::string name, const std::string& file);
std::shared_ptr<const Metric> make_command_metric(std::string name, bool higher_is_better, std::string command,
                                                  double timeout_seconds, int resamples);

}  // namespace seqto::internal
