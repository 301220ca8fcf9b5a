#include <algorithm>
#include <cmath>

#include "metrics/decode_speed.h"
#include "metrics/limits.h"
#include "seqto/search.h"

namespace seqto {
namespace {

// Of the figure of a limit: "size" of "size_ratio".
bool bounds(const Limit& limit, const std::string& objective) {
  if (is_cost(objective)) return limit.figure.starts_with(objective + "_");
  return limit.figure == objective || limit.figure == internal::drop_figure(objective);
}

// What has no limit: where a limit is met, more of it is not what was asked for. All of them, where each has one.
std::vector<std::string> left_open(const std::vector<std::string>& objectives, std::span<const Limit> limits) {
  std::vector<std::string> open;
  for (const std::string& objective : objectives)
    if (std::ranges::none_of(limits, [&](const Limit& l) { return bounds(l, objective); })) open.push_back(objective);
  return open.empty() ? objectives : open;
}

}  // namespace

std::optional<Selection> select(std::span<const Measurement> points, const Measurement& baseline,
                                const std::vector<std::string>& objectives, std::span<const Limit> limits) {
  if (points.empty()) return {};
  const std::vector<std::string> open = left_open(objectives, limits);
  std::vector<Point> axes;
  std::vector<Selection> candidates;
  std::vector<double> beyond;
  for (const Measurement& point : points) {
    Point& axis = axes.emplace_back();
    for (const std::string& name : open) axis.push_back(objective(point, name));
    Selection& candidate = candidates.emplace_back(candidates.size());
    candidate.limits = check(figures_of(point, baseline), limits);
    double sum = 0;
    for (const CheckedLimit& c : candidate.limits)
      if (!c.met) sum += c.excess() / std::max(std::abs(c.limit.bound), 1e-12);
    beyond.push_back(std::isnan(sum) ? std::numeric_limits<double>::infinity() : sum);
  }
  std::vector<size_t> order = nearest_to_ideal(axes, axes.size());
  // Last what is slower than float.
  const auto put_last = [&](const char* objective, const auto& speed) {
    if (std::ranges::count(objectives, objective) > 0)
      std::ranges::stable_partition(order, [&](size_t i) { return speed(points[i]) != Speed::kSlower; });
  };
  put_last("latency", [&](const Measurement& m) { return speed_of(m.latency, baseline.latency); });
  put_last("decode_latency", [&](const Measurement& m) {
    return internal::decode_speed(m.decode_latency.value_or(Latency()), baseline.decode_latency.value_or(Latency()));
  });
  return candidates[*std::ranges::min_element(order, {}, [&](size_t i) { return beyond[i]; })];
}

}  // namespace seqto
