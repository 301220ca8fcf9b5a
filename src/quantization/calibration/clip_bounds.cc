#include "quantization/calibration/clip_bounds.h"

#include <limits>

namespace seqto::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

std::optional<std::pair<double, double>> clip_bounds(const Node& n, const GraphView& index) {
  if (n.op_type != "Clip") return std::pair{0.0, kInfinity};
  if (index.opset < 11)
    return std::pair<double, double>{n.float_attribute("min", std::numeric_limits<float>::lowest()),
                                     n.float_attribute("max", std::numeric_limits<float>::max())};
  std::pair<double, double> result{-kInfinity, kInfinity};
  for (size_t k = 1; k < n.inputs.size() && k < 3; ++k) {
    if (n.inputs[k].empty()) continue;
    const Tensor* t = index.constant(n.inputs[k]);
    if (!t || t->element_count() != 1) return {};
    (k == 1 ? result.first : result.second) = element(*t, 0);
  }
  return result;
}

bool within_clip(const Node& activation, const GraphView& index, const RealBounds& bounds) {
  auto known = clip_bounds(activation, index);
  if (!known) return false;
  double slack = bounds.step * 0.5000001;
  return bounds.lowest >= known->first - slack && bounds.highest <= known->second + slack;
}

}  // namespace seqto::internal
