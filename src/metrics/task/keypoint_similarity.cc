// How well the keypoints of an object are found, by COCO's rules.
#include <algorithm>
#include <array>
#include <cmath>

#include "metrics/task/detections.h"

namespace seqto::internal {
namespace {

// Of COCO's 17 keypoints, nose to ankles: how far apart people place them, as share of the object's size.
constexpr std::array kSigmas{.026, .025, .025, .035, .035, .079, .079, .072, .072,
                             .062, .062, .107, .107, .087, .087, .089, .089};
constexpr double kAreaOfBox = 0.53;  // as Ultralytics takes it where no outline is known

double sigma_of(size_t k, size_t count) {
  return count == kSigmas.size() ? kSigmas[k] : 1 / static_cast<double>(count);
}

// How far a value lies outside of a side that reaches as far again at both ends.
double outside(double value, double begin, double end) {
  const double size = end - begin;
  return std::max(0.0, begin - size - value) + std::max(0.0, value - (end + size));
}

}  // namespace

double keypoint_similarity(const Pose& found, const Box& object, double aspect) {
  const Pose& pose = object.pose;
  const double width = static_cast<double>(object.right) - object.left,
               height = static_cast<double>(object.bottom) - object.top;
  const double area = pose.area > 0 ? pose.area : width * height * kAreaOfBox;
  const double ratio = pose.aspect > 0 ? pose.aspect : aspect;
  const size_t count = found.points.size();
  const bool none = std::ranges::none_of(pose.points, &Keypoint::labelled);
  double sum = 0, counted = 0;
  for (size_t k = 0; k < count; ++k) {
    const Keypoint& a = found.points[k];
    if (!none && !pose.points.at(k).labelled) continue;
    const double dx = none ? outside(a.x, object.left, object.right) : static_cast<double>(a.x) - pose.points[k].x;
    const double dy = none ? outside(a.y, object.top, object.bottom) : static_cast<double>(a.y) - pose.points[k].y;
    const double variance = std::pow(2 * sigma_of(k, count), 2);
    // Shares of the width weigh as much as those of the height in pixels.
    sum += std::exp(-(dx * dx * ratio + dy * dy / ratio) / (2 * variance * std::max(area, 1e-12)));
    ++counted;
  }
  return counted > 0 ? sum / counted : 0;
}

}  // namespace seqto::internal
