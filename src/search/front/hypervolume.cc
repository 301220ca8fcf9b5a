#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "seqto/search.h"

namespace seqto {
namespace {

// Volume over the first `axes` objectives: a sum of slabs along the last of them, in each of which the points
// below it dominate a volume of one objective less. For two objectives that is the usual sweep.
double slabs(std::vector<Point> points, const Point& reference, size_t axes) {
  const size_t axis = axes - 1;
  std::ranges::sort(points, {}, [axis](const Point& point) { return point[axis]; });
  if (axis == 0) return points.empty() ? 0 : reference[0] - points[0][0];

  double volume = 0;
  double widest = 0;  // of two objectives: what the points so far dominate along the first
  std::vector<Point> below;
  for (size_t i = 0; i < points.size(); ++i) {
    if (axis == 1) {
      widest = std::max(widest, reference[0] - points[i][0]);
    } else {
      below.push_back(points[i]);
    }
    const double top = i + 1 < points.size() ? points[i + 1][axis] : reference[axis];
    const double thickness = top - points[i][axis];
    if (thickness > 0) volume += thickness * (axis == 1 ? widest : slabs(below, reference, axis));
  }
  return volume;
}

}  // namespace

double hypervolume(std::span<const Point> points, const Point& reference) {
  assert(reference.size() >= 1 && reference.size() <= 4);
  std::vector<Point> inside;  // points that are not better than the reference everywhere (or hold NaN) add nothing
  for (const Point& point : points) {
    assert(point.size() == reference.size());
    if (std::ranges::equal(point, reference, std::less())) inside.push_back(point);
  }
  return slabs(std::move(inside), reference, reference.size());
}

}  // namespace seqto
