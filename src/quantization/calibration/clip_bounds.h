// Room: quantization/calibration. When a Relu or Clip behind a quantized tensor has nothing left to do.
#pragma once

#include "model/graph_view.h"
#include "quantization/arithmetic/arithmetic.h"

namespace seqto::internal {

// Real bounds that the quantized tensor can take, nothing when its range is unknown; whether it is converted.
struct RealBounds {
  double lowest = 0, highest = 0, step = 1;
  bool converted = false;
};

// With one scale.
RealBounds real_bounds(const QuantParams& params);

// True when no value that a tensor with these bounds can take would be changed by the Relu or Clip.
bool within_clip(const Node& activation, const GraphView& index, const RealBounds& bounds);

}  // namespace seqto::internal
