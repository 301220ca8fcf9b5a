#include "orchestrator/tune/best_so_far.h"

#include <fmt/format.h>

#include <algorithm>

#include "seqto/report.h"
#include "seqto/search.h"
#include "visualizer/format.h"

namespace seqto::internal {
namespace {

// References are no candidates.
bool competes(const Trial& trial, Part part) {
  return trial.part == part && trial.measurement && trial.id != "float" && trial.id != "published";
}

}  // namespace

std::string best_so_far(std::span<const Trial> trials, const Trial& latest,
                        const std::vector<std::string>& objectives) {
  const std::string loss = followed_loss(objectives);
  std::vector<Point> points;
  const auto add = [&](const Trial& trial) {
    if (competes(trial, latest.part))
      points.push_back({objective(*trial.measurement, loss), objective(*trial.measurement, "size")});
  };
  std::ranges::for_each(trials, add);
  add(latest);
  std::vector<Point> front;
  for (size_t i : pareto_front(points)) front.push_back(points[i]);
  const std::vector<size_t> best = nearest_to_ideal(front, 1);
  if (best.empty()) return "";
  const Point& point = front[best.front()];
  return fmt::format("best so far {} {} at {}", loss, format_figure(point[0]),
                     format_bytes(static_cast<int64_t>(point[1])));
}

}  // namespace seqto::internal
