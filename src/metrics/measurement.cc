#include <cmath>
#include <map>
#include <set>

#include "metrics/loss/compare_rows.h"
#include "metrics/loss/loss_fields.h"
#include "metrics/loss/other_shapes.h"
#include "metrics/six_digits.h"
#include "metrics/task/class_metrics.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

bool all_finite(const std::vector<double>& values) {
  for (double value : values)
    if (!std::isfinite(value)) return false;
  return true;
}

using Columns = std::map<std::string, std::vector<double>>;

const std::vector<double>* column(const Columns& columns, const std::string& name) {
  const auto found = columns.find(name);
  return found == columns.end() || found->second.empty() || !all_finite(found->second) ? nullptr : &found->second;
}

Blocks blocks_of_labelled(const Blocks& blocks, std::span<const int64_t> labels) {
  Blocks labelled;
  for (size_t i = 0; blocks.size() == labels.size() && i < labels.size(); ++i)
    if (labels[i] >= 0) labelled.push_back(blocks[i]);
  return labelled;
}

}  // namespace

void measure_outputs(Measurement& measurement, const Outputs& reference, const Outputs& outputs,
                     std::span<const int64_t> labels, std::span<const std::string> paired) {
  Columns columns;
  if (reference.rows > 0) {
    auto [each, rows, worst] = internal::compare_rows(reference, outputs);
    measurement.losses = mean(each);
    measurement.kl_rows = std::move(rows);
    measurement.worst_output = std::move(worst);
    internal::count_other_shapes(measurement, reference, outputs);
    for (const LossField& field : kLossFields)
      for (const Losses& losses : each) columns[std::string(field.name)].push_back(losses.*field.value);
  }
  const Blocks labelled = blocks_of_labelled(measurement.blocks, labels);
  LabelledOutputs scored = score(outputs, labels, labelled);
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
    const std::vector<Interval> intervals = bootstrap_means(values, group == &columns ? measurement.blocks : labelled);
    for (size_t i = 0; i < names.size(); ++i) measurement.intervals[names[i]] = intervals[i];
  }
  std::set<std::string> kept(paired.begin(), paired.end());
  kept.insert({"kl", "top1_disagreement"});
  for (const std::string& name : kept)
    if (columns.contains(name))
      for (double value : columns[name]) measurement.samples[name].push_back(six_digits(value));
  if (!labelled.empty() && labelled.size() < labels.size())
    for (const auto& [name, hits] : scored.hits) measurement.replicates[name] = mean_on_resamples(hits, labelled);
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
      if (all_finite(score.samples)) measurement.intervals[name] = bootstrap_mean(score.samples, measurement.blocks);
      measurement.samples[name] = std::move(score.samples);
    } else if (!score.replicates.empty() && all_finite(score.replicates)) {
      measurement.intervals[name] = percentile_interval(score.replicates);
      measurement.replicates[name] = std::move(score.replicates);
    }
  }
}

double drop(const Measurement& measurement, const Measurement& baseline, const std::string& metric) {
  const double now = measurement.metrics.at(metric), before = baseline.metrics.at(metric);
  return measurement.lower_is_better.contains(metric) ? now - before : before - now;
}

PairedFigure::PairedFigure(std::span<const Measurement* const> of, const std::string& name)
    : sizes_(of.size()), resampled_(of.size()) {
  std::map<size_t, std::vector<size_t>> of_one_size;
  for (size_t i = 0; i < of.size(); ++i) {
    if (const auto* replicates = column(of[i]->replicates, name)) {
      resampled_[i] = *replicates;
    } else if (const auto* samples = column(of[i]->samples, name)) {
      sizes_[i] = samples->size();
      of_one_size[samples->size()].push_back(i);
    }
  }
  for (const auto& [size, members] : of_one_size) {
    std::vector<std::vector<double>> columns;
    for (size_t i : members) columns.push_back(of[i]->samples.at(name));
    std::vector<std::vector<double>> means = resampled_means(columns, of[members[0]]->blocks);
    for (size_t k = 0; k < members.size(); ++k) resampled_[members[k]] = std::move(means[k]);
  }
}

std::optional<Interval> PairedFigure::difference(size_t a, size_t b) const {
  const std::vector<double>&x = resampled_[a], &y = resampled_[b];
  if (x.empty() || sizes_[a] != sizes_[b] || x.size() != y.size()) return {};
  std::vector<double> differences;
  for (size_t i = 0; i < x.size(); ++i) differences.push_back(x[i] - y[i]);
  return percentile_interval(differences);
}

std::optional<Interval> paired_difference(const Measurement& a, const Measurement& b, const std::string& name) {
  const Measurement* both[]{&a, &b};
  return PairedFigure(both, name).difference(0, 1);
}

std::optional<double> mcnemar(const Measurement& a, const Measurement& b) {
  if (!a.blocks.empty()) return {};  // samples that are alike are no pairs of their own
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
