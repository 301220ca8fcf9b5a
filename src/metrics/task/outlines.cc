#include "metrics/task/outlines.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace seqto::internal {
namespace {

struct Point {
  double x = 0, y = 0;
};

std::vector<Point> points_of(const Outline& outline) {
  std::vector<Point> points;
  for (const Corner& c : outline) points.push_back({c.x, c.y});
  return points;
}

// Above 0 where the corners go from the x axis towards the y axis.
double signed_area(std::span<const Point> points) {
  double sum = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const Point &a = points[i], &b = points[(i + 1) % points.size()];
    sum += a.x * b.y - a.y * b.x;
  }
  return sum / 2;
}

// What of `points` lies left of the line from a to b, by Sutherland and Hodgman's rule.
std::vector<Point> cut_off(std::span<const Point> points, const Point& a, const Point& b) {
  const auto side = [&](const Point& p) { return (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x); };
  std::vector<Point> kept;
  for (size_t i = 0; i < points.size(); ++i) {
    const Point &from = points[i], &to = points[(i + 1) % points.size()];
    const double before = side(from), after = side(to);
    if (before >= 0) kept.push_back(from);
    if ((before < 0) == (after < 0)) continue;
    const double share = before / (before - after);
    kept.push_back({from.x + share * (to.x - from.x), from.y + share * (to.y - from.y)});
  }
  return kept;
}

}  // namespace

Outline turned_box(double x, double y, double width, double height, double angle) {
  const double c = std::cos(angle), s = std::sin(angle);
  Outline corners;
  for (const auto& [u, v] : {std::pair{-0.5, -0.5}, {0.5, -0.5}, {0.5, 0.5}, {-0.5, 0.5}})
    corners.push_back({static_cast<float>(x + u * width * c - v * height * s),
                       static_cast<float>(y + u * width * s + v * height * c)});
  return corners;
}

Outline corners_of(const Box& box) {
  return {{box.left, box.top}, {box.right, box.top}, {box.right, box.bottom}, {box.left, box.bottom}};
}

double area_of(const Outline& outline) { return std::abs(signed_area(points_of(outline))); }

double common_area(const Outline& convex, const Outline& other) {
  std::vector<Point> knife = points_of(convex), rest = points_of(other);
  if (signed_area(knife) < 0) std::ranges::reverse(knife);
  for (size_t i = 0; i < knife.size() && !rest.empty(); ++i)
    rest = cut_off(rest, knife[i], knife[(i + 1) % knife.size()]);
  return std::abs(signed_area(rest));
}

int64_t first_pixel(double share, int64_t pixels) {
  const double place = std::ceil(share * static_cast<double>(pixels) - 0.5);
  return std::isnan(place) ? 0 : static_cast<int64_t>(std::clamp(place, 0.0, static_cast<double>(pixels)));
}

Mask::Mask(int64_t width, int64_t height) : width_(width), words_(static_cast<size_t>((width * height + 63) / 64)) {}

void Mask::set(int64_t x, int64_t y) {
  const auto at = static_cast<size_t>(y * width_ + x);
  words_[at / 64] |= uint64_t{1} << (at % 64);
}

bool Mask::covers(int64_t x, int64_t y) const {
  const auto at = static_cast<size_t>(y * width_ + x);
  return (words_[at / 64] >> (at % 64) & 1) != 0;
}

int64_t Mask::count() const { return common(*this); }

int64_t Mask::common(const Mask& other) const {
  int64_t sum = 0;
  for (size_t i = 0; i < words_.size() && i < other.words_.size(); ++i)
    sum += std::popcount(words_[i] & other.words_[i]);
  return sum;
}

Mask filled(std::span<const Outline> parts, int64_t width, int64_t height) {
  Mask mask(width, height);
  for (const Outline& part : parts) {
    const std::vector<Point> points = points_of(part);
    for (int64_t row = 0; row < height; ++row) {
      const double y = (static_cast<double>(row) + 0.5) / static_cast<double>(height);
      std::vector<double> crossings;
      for (size_t i = 0; i < points.size(); ++i) {
        const Point &a = points[i], &b = points[(i + 1) % points.size()];
        if ((a.y <= y) == (b.y <= y)) continue;
        const double x = a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x);
        if (std::isfinite(x)) crossings.push_back(x);
      }
      std::ranges::sort(crossings);
      for (size_t i = 0; i + 1 < crossings.size(); i += 2) {
        const int64_t end = first_pixel(crossings[i + 1], width);
        for (int64_t x = first_pixel(crossings[i], width); x < end; ++x) mask.set(x, row);
      }
    }
  }
  return mask;
}

}  // namespace seqto::internal
