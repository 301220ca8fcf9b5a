#include <cmath>

#include "metrics/loss_fields.h"
#include "metrics/task_metrics.h"

namespace seqto {
namespace {

bool all_finite(const std::vector<double>& values) {
  for (double value : values)
    if (!std::isfinite(value)) return false;
  return true;
}

}  // namespace

void measure_outputs(Measurement& measurement, const Outputs& reference, const Outputs& outputs,
                     std::span<const int64_t> labels) {
  std::map<std::string, std::vector<double>> columns;
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
    if (columns.contains(name)) measurement.samples[name] = std::move(columns[name]);
  measurement.samples.merge(scored.hits);
}

std::optional<Interval> paired_difference(const Measurement& a, const Measurement& b, const std::string& name) {
  const auto x = a.samples.find(name), y = b.samples.find(name);
  if (x == a.samples.end() || y == b.samples.end() || x->second.size() != y->second.size()) return {};
  std::vector<double> differences;
  for (size_t i = 0; i < x->second.size(); ++i) differences.push_back(x->second[i] - y->second[i]);
  if (!all_finite(differences)) return {};
  return bootstrap_mean(differences);
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
