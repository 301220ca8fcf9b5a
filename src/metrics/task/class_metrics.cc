#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "metrics/loss/top_classes.h"
#include "metrics/task/class_metrics.h"
#include "seqto/error.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

// A sample with a label; `found` is the first class, or -1.
struct Answer {
  int64_t label = 0, found = -1;
};

// Mean over the classes that occur as labels of 2 hits / (labels + predictions). `counts` says how often each answer is
// there. The last class stands for predictions that are no label.
class MacroF1 {
 public:
  explicit MacroF1(std::vector<Answer> answers) : answers_(std::move(answers)) {
    std::map<int64_t, int64_t> numbers;
    for (Answer& a : answers_) a.label = numbers.emplace(a.label, static_cast<int64_t>(numbers.size())).first->second;
    classes_ = numbers.size();
    for (Answer& a : answers_) {
      const auto known = numbers.find(a.found);
      a.found = known == numbers.end() ? static_cast<int64_t>(classes_) : known->second;
    }
  }

  double operator()(std::span<const double> counts) const {
    std::vector<double> labels(classes_ + 1), predictions(classes_ + 1), hits(classes_ + 1);
    for (size_t i = 0; i < answers_.size(); ++i) {
      const auto [label, found] = answers_[i];
      labels[label] += counts[i];
      predictions[found] += counts[i];
      if (label == found) hits[label] += counts[i];
    }
    double sum = 0, occurring = 0;
    for (size_t c = 0; c < classes_; ++c) {
      if (labels[c] == 0) continue;
      sum += 2 * hits[c] / (labels[c] + predictions[c]);
      ++occurring;
    }
    return sum / occurring;
  }

 private:
  std::vector<Answer> answers_;
  size_t classes_ = 0;
};

void require_class(int64_t label, std::span<const float> scores) {
  const auto classes = std::ssize(scores);
  if (label < classes) return;
  throw Error(
      Code::kInvalidInput,
      fmt::format("[evaluate] the label {} and a first output of {} values found; a class from 0 to {} expected; "
                  "correct the labels, or leave them out where they are no classes",
                  label, classes, classes - 1));
}

}  // namespace

LabelledOutputs score(const Outputs& outputs, std::span<const int64_t> labels, const Blocks& blocks) {
  LabelledOutputs result;
  // A single float is a regression's, whose whole numbers look like labels; a whole number is the class itself.
  if (labels.empty() || (outputs.columns == 1) != outputs.labels) return result;
  if (static_cast<int64_t>(labels.size()) != outputs.rows) {
    throw Error(Code::kInvalidInput, fmt::format("[evaluate] {} labels found for {} samples; one for each expected",
                                                 labels.size(), outputs.rows));
  }
  std::vector<double>&top1 = result.hits["top1"], &top5 = result.hits["top5"];
  std::vector<Answer> answers;
  for (int64_t i = 0; i < outputs.rows; ++i) {
    const int64_t label = labels[i];
    if (label < 0) continue;
    if (outputs.labels) {
      const auto row = outputs.row(i);
      const int64_t found = row.empty() ? -1 : static_cast<int64_t>(row[0]);
      answers.push_back({label, found});
      top1.push_back(found == label);
      top5.push_back(top1.back());
      continue;
    }
    require_class(label, outputs.row(i));
    answers.push_back({label, -1});
    top1.push_back(0);
    top5.push_back(0);
    if (outputs.row(i).empty() || has_nan(outputs.row(i))) continue;  // predicts nothing
    const TopClasses top = top_classes(outputs.row(i));
    const bool hit = top.classes[0] == label;
    top1.back() = hit;
    top5.back() = std::ranges::find(top.list(), label) != top.list().end();
    answers.back().found = top.classes[0];
  }
  if (top1.empty()) return {};
  for (const auto& [name, hits] : result.hits)
    result.metrics[name] = std::accumulate(hits.begin(), hits.end(), 0.0) / static_cast<double>(hits.size());
  const MacroF1 f1(std::move(answers));
  result.metrics["f1"] = f1(std::vector<double>(top1.size(), 1));
  const auto replicate = [&](std::span<const double> counts) { result.f1_replicates.push_back(f1(counts)); };
  for_each_resample(top1.size(), kReplicates, replicate, blocks);
  return result;
}

std::vector<double> mean_on_resamples(std::span<const double> values, const Blocks& blocks) {
  std::vector<double> means;
  const auto add = [&](std::span<const double> counts) {
    const double drawn = std::accumulate(counts.begin(), counts.end(), 0.0);
    means.push_back(std::inner_product(counts.begin(), counts.end(), values.begin(), 0.0) / drawn);
  };
  for_each_resample(values.size(), kReplicates, add, blocks);
  return means;
}

std::map<std::string, double> task_metrics(const Outputs& outputs, std::span<const int64_t> labels) {
  return score(outputs, labels).metrics;
}

}  // namespace seqto
