// Shapes that are no upright boxes: polygons, and the pixels that they cover.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "seqto/dataset.h"

namespace seqto::internal {

// A rectangle turned about its middle by `angle`, in radians from the x axis towards the y axis.
Outline turned_box(double x, double y, double width, double height, double angle);
Outline corners_of(const Box& box);

double area_of(const Outline& outline);
// What both cover; `convex` is. Axes that are stretched stretch it as they do the areas.
double common_area(const Outline& convex, const Outline& other);

// Of so many along a side, the first whose middle is not before the place; all where none is. Of NaN 0.
int64_t first_pixel(double share, int64_t pixels);

// Pixels of a picture.
class Mask {
 public:
  Mask(int64_t width, int64_t height);
  void set(int64_t x, int64_t y);
  bool covers(int64_t x, int64_t y) const;
  int64_t count() const;
  int64_t common(const Mask& other) const;  // of one size

 private:
  int64_t width_ = 0;
  std::vector<uint64_t> words_;
};
// The pixels whose middles lie in one of the parts, inside being what an odd number of a part's sides surrounds.
Mask filled(std::span<const Outline> parts, int64_t width, int64_t height);

}  // namespace seqto::internal
