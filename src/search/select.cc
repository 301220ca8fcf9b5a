#include <algorithm>
#include <cmath>

#include "metrics/loss_fields.h"
#include "seqto/search.h"

namespace seqto {

Figures figures_of(const Measurement& measurement, const Measurement& baseline) {
  Figures figures;
  const auto ratio = [](int64_t value, int64_t to) { return static_cast<double>(value) / static_cast<double>(to); };
  figures["size_bytes"].value = static_cast<double>(measurement.size_bytes);
  if (baseline.size_bytes > 0) figures["size_ratio"].value = ratio(measurement.size_bytes, baseline.size_bytes);
  if (measurement.latency.median_ns > 0) {
    figures["latency_ns"].value = static_cast<double>(measurement.latency.median_ns);
    if (baseline.latency.median_ns > 0)
      figures["latency_ratio"].value = ratio(measurement.latency.median_ns, baseline.latency.median_ns);
  }
  for (const LossField& field : kLossFields) figures[std::string(field.name)].value = measurement.losses.*field.value;
  for (const auto& [name, value] : measurement.metrics) {
    figures[name].value = value;
    if (const auto before = baseline.metrics.find(name); higher_is_better(name) && before != baseline.metrics.end())
      figures[name + "_drop"].value = before->second - value;
  }
  for (const auto& [name, interval] : measurement.intervals)
    if (const auto figure = figures.find(name); figure != figures.end()) figure->second.interval = interval;
  return figures;
}

std::optional<Selection> select(std::span<const Measurement> points, const Measurement& baseline,
                                const std::vector<std::string>& objectives, std::span<const Limit> limits) {
  if (points.empty()) return {};
  std::vector<Point> axes;
  std::vector<Selection> candidates;
  std::vector<double> beyond;
  for (const Measurement& point : points) {
    Point& axis = axes.emplace_back();
    for (const std::string& name : objectives) axis.push_back(objective(point, name));
    Selection& candidate = candidates.emplace_back(candidates.size());
    candidate.limits = check({.figures = figures_of(point, baseline)}, limits);
    double sum = 0;
    for (const CheckedLimit& c : candidate.limits)
      if (!c.met) sum += c.excess() / std::max(std::abs(c.limit.bound), 1e-12);
    beyond.push_back(std::isnan(sum) ? std::numeric_limits<double>::infinity() : sum);
  }
  std::vector<size_t> order = nearest_to_ideal(axes, axes.size());
  if (std::ranges::find(objectives, "latency") != objectives.end() && baseline.latency.median_ns > 0)
    std::ranges::stable_partition(order, [&](size_t i) {
      constexpr double kNoise = 1.03;  // what two timings of one model may differ by
      return static_cast<double>(points[i].latency.median_ns) <=
             kNoise * static_cast<double>(baseline.latency.median_ns);
    });
  return candidates[*std::ranges::min_element(order, {}, [&](size_t i) { return beyond[i]; })];
}

}  // namespace seqto
