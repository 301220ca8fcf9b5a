#include "search/finalists.h"

#include <algorithm>
#include <cmath>

#include "search/scaled.h"

namespace seqto::internal {

std::vector<const Entry*> finalists(const Archive& archive, size_t count) {
  std::vector<const Entry*> front = archive.front();
  // The float model itself is in every report.
  std::erase_if(front, [](const Entry* entry) {
    return std::ranges::all_of(entry->assignment, [](int choice) { return choice == 0; });
  });
  if (front.size() <= count) return front;
  std::vector<Point> points;
  for (const Entry* entry : front) {
    Point point = archive.costs(*entry);
    point.push_back(std::log(std::max(entry->joint_loss(), 1e-9)));
    points.push_back(std::move(point));
  }
  points = scaled(points);
  const Point reference(points[0].size(), 110);
  while (front.size() > count) {
    const double whole = hypervolume(points, reference);
    size_t least = 0;
    double loss = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < points.size(); ++i) {
      if (std::ranges::find(points[i], 0.0) != points[i].end()) continue;  // an end of an objective
      std::vector<Point> others = points;
      others.erase(others.begin() + static_cast<ptrdiff_t>(i));
      if (const double own = whole - hypervolume(others, reference); own < loss) loss = own, least = i;
    }
    if (!std::isfinite(loss)) break;  // ends alone are left
    points.erase(points.begin() + static_cast<ptrdiff_t>(least));
    front.erase(front.begin() + static_cast<ptrdiff_t>(least));
  }
  return front;
}

}  // namespace seqto::internal
