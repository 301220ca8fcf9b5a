// The metrics that seqto brings, and what they share.
#pragma once

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

std::shared_ptr<const Metric> make_accuracy();
std::shared_ptr<const Metric> make_mae();
std::shared_ptr<const Metric> make_rmse();
std::shared_ptr<const Metric> make_perplexity();
// kNone: the mean where the first output is [1, positions, features], else the whole.
std::shared_ptr<const Metric> make_topk_overlap(Pooling pooling);
// `file`: JSON that says what distances are divided by; empty: as its defaults.
std::shared_ptr<const Metric> make_nme(const std::string& file);
// Of boxes, keypoints or masks.
inline bool is_average_precision(std::string_view metric) {
  return metric.ends_with("map50") || metric.ends_with("map50_95");
}

// "map50" or "map50_95" of boxes, of keypoints or masks with "keypoint_" or "mask_" in front. `file` holds JSON that
// describes the detector's outputs; empty: the JSON `found` does; without both there is no score.
std::shared_ptr<const Metric> make_average_precision(const std::string& name, const std::string& file,
                                                     const std::string& found);
// "wer" or "cer". `file`: the vocabulary of the scores.
std::shared_ptr<const Metric> make_error_rate(std::string name, const std::string& file);
std::shared_ptr<const Metric> make_command_metric(std::string name, bool higher_is_better, std::string command,
                                                  double timeout_seconds, int resamples);

}  // namespace seqto::internal
