#include "quantization/calibration/clip_bounds.h"

namespace seqto::internal {

bool within_clip(const Node& activation, const GraphView& index, const RealBounds& bounds) {
  auto known = clip_bounds(activation, index);
  if (!known) return false;
  double slack = bounds.step * 0.5000001;
  return bounds.lowest >= known->first - slack && bounds.highest <= known->second + slack;
}

}  // namespace seqto::internal
