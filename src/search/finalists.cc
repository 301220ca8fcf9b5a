#include "search/finalists.h"

#include <algorithm>
#include <cmath>

namespace seqto::internal {
namespace {

// Every objective from 0, the best of the points, to 1, the worst.
std::vector<Point> scaled(std::vector<Point> points) {
  for (size_t axis = 0; axis < points[0].size(); ++axis) {
    double low = points[0][axis], high = low;
    for (const Point& p : points) low = std::min(low, p[axis]), high = std::max(high, p[axis]);
    for (Point& p : points) p[axis] = high > low ? (p[axis] - low) / (high - low) : 0;
  }
  return points;
}

}  // namespace

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
  points = scaled(std::move(points));
  const Point reference(points[0].size(), 1.1);
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
