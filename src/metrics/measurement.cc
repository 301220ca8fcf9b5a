#include <cmath>

#include "metrics/class_metrics.h"
#include "metrics/loss_fields.h"
#include "metrics/six_digits.h"
#include "seqto/task_metrics.h"

namespace seqto {
namespace {

bool all_finite(const std::vector<double>& values) {
  for (double value : values)
    if (!std::isfinite(value)) return false;
  return true;
}

using Columns = std::map<std::string, std::vector<double>>;

// a's values less b's; nothing where they cannot be paired.
std::optional<std::vector<double>> pair_up(const Columns& a, const Columns& b, const std::string& name) {
  const auto x = a.find(name), y = b.find(name);
  if (x == a.end() || y == b.end() || x->second.empty() || x->second.size() != y->second.size()) return {};
  std::vector<double> differences;
  for (size_t i = 0; i < x->second.size(); ++i) differences.push_back(x->second[i] - y->second[i]);
  if (!all_finite(differences)) return {};
  return differences;
}

}  // namespace

void measure_outputs(Measurement& measurement, const Outputs& reference, const Outputs& outputs,
                     std::span<const int64_t> labels) {
  Columns columns;
  if (reference.rows > 0) {
    const std::vector<Losses> each = compare_each(reference, outputs);
    measurement.losses = mean(each);
    for (const LossField& field : kLossFields)
      for (const Losses& losses : each) columns[std::string(field.name)].push_back(losses.*field.value);
  }
  LabelledOutputs scored = score(outputs, labels);
  measurement.metrics = std::move(scored.metrics);
  // Columns of one length share their resamples; samples without a label make the labelled ones shorter.
  for (auto* group : {&columns, &scored.hits}) {
    std::vector<std::string> names;
    std::vector<std::vector<double>> values;
    for (auto& [name, column] : *group) {
      if (!all_finite(column)) continue;
      names.push_back(name);
      values.push_back(column);
    }
    const std::vector<Interval> intervals = bootstrap_means(values);
    for (size_t i = 0; i < names.size(); ++i) measurement.intervals[names[i]] = intervals[i];
  }
  for (const char* name : {"kl", "top1_disagreement"})
    if (columns.contains(name))
      for (double value : columns[name]) measurement.samples[name].push_back(six_digits(value));
  measurement.samples.merge(scored.hits);
  if (!scored.f1_replicates.empty()) {
    measurement.intervals["f1"] = percentile_interval(scored.f1_replicates);
    measurement.replicates["f1"] = std::move(scored.f1_replicates);
  }
}

void measure_task(Measurement& measurement, const Metrics& metrics, const Answers& answers, const Answers& reference,
                  std::span<const Truth> truths) {
  for (const auto& metric : metrics) {
    const std::string& name = metric->name();
    Score score = metric->score(answers, reference, truths);
    measurement.metrics[name] = score.value;
    if (!metric->higher_is_better()) measurement.lower_is_better.insert(name);
    if (!score.samples.empty()) {
      if (all_finite(score.samples)) measurement.intervals[name] = bootstrap_mean(score.samples);
      measurement.samples[name] = std::move(score.samples);
    } else if (!score.replicates.empty() && all_finite(score.replicates)) {
      measurement.intervals[name] = percentile_interval(score.replicates);
      measurement.replicates[name] = std::move(score.replicates);
    }
  }
}

std::optional<Interval> paired_difference(const Measurement& a, const Measurement& b, const std::string& name) {
  if (const auto differences = pair_up(a.samples, b.samples, name)) return bootstrap_mean(*differences);
  if (const auto differences = pair_up(a.replicates, b.replicates, name)) return percentile_interval(*differences);
  return {};
}

std::optional<double> mcnemar(const Measurement& a, const Measurement& b) {
  const auto x = a.samples.find("top1"), y = b.samples.find("top1");
  if (x == a.samples.end() || y == b.samples.end() || x->second.size() != y->second.size()) return {};
  int64_t only_a = 0, only_b = 0;
  for (size_t i = 0; i < x->second.size(); ++i) {
    only_a += x->second[i] > y->second[i];
    only_b += y->second[i] > x->second[i];
  }
  return mcnemar(only_a, only_b);
}

}  // namespace seqto
