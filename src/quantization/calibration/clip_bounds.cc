#include "quantization/calibration/clip_bounds.h"

namespace seqto::internal {

RealBounds real_bounds(const QuantParams& params) {
  const QuantLimits limits = quant_limits(params.type);
  const double scale = params.scale[0], zero_point = params.zero_point[0];
  return {(limits.lowest - zero_point) * scale, (limits.highest - zero_point) * scale, scale};
}

bool within_clip(const Node& activation, const GraphView& index, const RealBounds& bounds) {
  auto known = clip_bounds(activation, index);
  if (!known) return false;
  double slack = bounds.step * 0.5000001;
  return bounds.lowest >= known->first - slack && bounds.highest <= known->second + slack;
}

}  // namespace seqto::internal
