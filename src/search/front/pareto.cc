#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "search/front/scaled.h"

namespace seqto {
namespace {

bool has_nan(const Point& point) {
  return std::ranges::any_of(point, [](double value) { return std::isnan(value); });
}

}  // namespace

std::vector<Point> internal::scaled(std::span<const Point> points) {
  std::vector<Point> result(points.begin(), points.end());
  if (points.empty()) return result;
  for (size_t axis = 0; axis < points[0].size(); ++axis) {
    double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
    for (const Point& point : points) {
      if (!std::isfinite(point[axis])) continue;
      lowest = std::min(lowest, point[axis]);
      highest = std::max(highest, point[axis]);
    }
    for (Point& point : result) {
      if (std::isfinite(point[axis])) {
        point[axis] = highest > lowest ? 100 * ((point[axis] - lowest) / (highest - lowest)) : 0;
      }
    }
  }
  return result;
}

bool dominates(const Point& a, const Point& b) {
  assert(a.size() == b.size());
  bool better = false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] <= b[i])) return false;
    better |= a[i] < b[i];
  }
  return better;
}

std::vector<size_t> pareto_front(std::span<const Point> points) {
  std::vector<size_t> front;
  for (size_t i = 0; i < points.size(); ++i) {
    bool stays = !has_nan(points[i]);
    for (size_t j = 0; stays && j < points.size(); ++j) {
      stays = !dominates(points[j], points[i]) && !(j < i && points[j] == points[i]);
    }
    if (stays) front.push_back(i);
  }
  return front;
}

std::vector<size_t> nearest_to_ideal(std::span<const Point> points, size_t k) {
  std::vector<double> distance;  // from the ideal point, which is the origin of the scaled objectives
  for (const Point& point : internal::scaled(points)) {
    double sum = 0;
    for (double value : point) sum += value * value;
    distance.push_back(std::isfinite(sum) ? std::sqrt(sum) : std::numeric_limits<double>::infinity());
  }
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return distance[i]; });
  order.resize(std::min(k, order.size()));
  return order;
}

}  // namespace seqto
