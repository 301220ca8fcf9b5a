#include "metrics/limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "metrics/loss/loss_fields.h"
#include "metrics/task/task_metric_kinds.h"
#include "seqto/error.h"

namespace seqto {

static constexpr std::string_view kDrop = "_drop";

void internal::refuse_limit(const Limit& limit, const std::vector<std::string>& names) {
  throw Error(Code::kInvalidInput,
              fmt::format("[check] {}: a limit of {} found, which was not measured; one of {} expected; top1, "
                          "top5 and f1 need labels and no fixed batch above 1, others --metric NAME{}",
                          limit.asked_by, limit.figure, fmt::join(names, ", "), did_you_mean(limit.figure, names)));
}

std::string internal::drop_figure(const std::string& metric) { return metric + std::string(kDrop); }

std::optional<std::string> internal::dropped_metric(const std::string& figure) {
  if (!figure.ends_with(kDrop)) return {};
  return figure.substr(0, figure.size() - kDrop.size());
}

namespace {

// Any drop from 0 is met.
bool can_drop(const Measurement& baseline, const std::string& metric) {
  const auto found = baseline.metrics.find(metric);
  return found != baseline.metrics.end() && (found->second != 0 || baseline.lower_is_better.contains(metric));
}

void refuse_drop_from_0(const Limit& limit, const Figures& figures) {
  const auto metric = internal::dropped_metric(limit.figure);
  if (!metric || !figures.contains(*metric)) return;
  throw Error(Code::kInvalidInput,
              fmt::format("[check] {}: a limit of {} found, and a float model that scores 0 in {}, from which nothing "
                          "can drop; one that scores more expected; check the labels, the number that each class has, "
                          "the preprocessing, how boxes are read, and with `seqto validate` that its outputs are "
                          "numbers",
                          limit.asked_by, limit.figure, *metric));
}

}  // namespace

double worse_end(const Figure& figure, bool high_is_worse) {
  if (!figure.interval) return figure.value;
  return high_is_worse ? figure.interval->high : figure.interval->low;
}

Figures figures_of(const Measurement& measurement, const Measurement& baseline) {
  Figures figures;
  const auto add = [&](const std::string& name, double value, std::optional<Interval> interval = {},
                       bool higher_is_better = false) {
    if (const auto known = measurement.intervals.find(name); known != measurement.intervals.end())
      interval = known->second;
    figures[name] = {value, interval, higher_is_better};
  };
  const auto size = static_cast<double>(measurement.size_bytes), float_size = static_cast<double>(baseline.size_bytes);
  add("size_bytes", size);
  if (float_size > 0) add("size_ratio", size / float_size);
  const auto add_latency = [&](const std::string& name, const Latency& latency, const Latency& of_float) {
    if (latency.median_ns <= 0) return;
    const Interval spread{static_cast<double>(latency.p10_ns), static_cast<double>(latency.p90_ns)};
    const auto median = static_cast<double>(latency.median_ns), other = static_cast<double>(of_float.median_ns);
    add(name + "_ns", median, spread);
    if (other > 0)
      add(name + "_ratio", ratio_of(latency, of_float),
          latency.over_float ? latency.over_float->interval : Interval{spread.low / other, spread.high / other});
  };
  add_latency("latency", measurement.latency, baseline.latency);
  if (measurement.decode_latency)
    add_latency("decode_latency", *measurement.decode_latency, baseline.decode_latency.value_or(Latency()));
  for (const LossField& field : kLossFields)
    if (const double loss = measurement.losses.*field.value;
        !std::isnan(loss) || !std::isnan(baseline.losses.*field.value))
      add(std::string(field.name), loss);  // NaN is what a summary has of an infinite one
  if (measurement.worst_output) add("worst_output", measurement.worst_output->nmse);
  for (const auto& [name, value] : measurement.metrics) {
    const bool higher = !measurement.lower_is_better.contains(name);
    add(name, value, {}, higher);
    if (!can_drop(baseline, name)) continue;
    const Measurement *worse = higher ? &baseline : &measurement, *better = higher ? &measurement : &baseline;
    const double lost = drop(measurement, baseline, name);
    std::optional<Interval> interval = paired_difference(*worse, *better, name);
    if (&measurement != &baseline) interval = internal::trusted_interval(measurement, name, lost, interval);
    add(internal::drop_figure(name), lost, interval);
  }
  if (const auto changed = figures.find("top1_disagreement"); changed != figures.end() && &measurement != &baseline)
    changed->second.interval =
        internal::trusted_interval(measurement, changed->first, changed->second.value, changed->second.interval);
  return figures;
}

bool higher_is_better(const std::string& figure) {
  if (figure == "top1_agreement" || std::ranges::count(internal::kLabelMetrics, figure) > 0) return true;
  const internal::MetricKind* kind = internal::metric_kind(figure);
  return kind && kind->higher_is_better;
}

std::vector<Limit> with_loss(std::span<const Limit> limits, const std::string& loss) {
  std::vector<Limit> named(limits.begin(), limits.end());
  for (Limit& limit : named) {
    if (limit.figure == kUnnamedLoss) limit.figure = loss;
    const auto field = std::ranges::find(kLossFields, limit.figure, &LossField::name);
    if (limit.at_most && limit.bound > 1 && field != kLossFields.end() && field->is_share)
      throw Error(
          Code::kUsage,
          fmt::format("[check] a limit of {0} on {1} found, which is 1 at most; a share expected, "
                      "as {1}={2} or {1}={3}%",
                      limit.bound, limit.figure, std::min(limit.bound, 100.0) / 100, std::min(limit.bound, 100.0)));
  }
  return named;
}

std::vector<CheckedLimit> check(const Figures& figures, std::span<const Limit> limits, const GateOptions& options) {
  std::vector<CheckedLimit> checked;
  for (const Limit& limit : limits) {
    auto it = figures.find(limit.figure);
    if (it == figures.end()) {
      refuse_drop_from_0(limit, figures);
      std::vector<std::string> names;
      for (const auto& [name, figure] : figures) names.push_back(name);
      internal::refuse_limit(limit, names);
    }
    CheckedLimit c{limit, it->second};
    const double value = options.confident ? worse_end(c.found, limit.at_most) : c.found.value;
    c.met = limit.at_most ? value <= limit.bound : value >= limit.bound;
    checked.push_back(std::move(c));
  }
  return checked;
}

}  // namespace seqto
