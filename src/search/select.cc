#include <algorithm>
#include <cmath>

#include "seqto/search.h"

namespace seqto {

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
    candidate.limits = check(figures_of(point, baseline), limits);
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
