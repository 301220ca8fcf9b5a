// Room: quantization. When a Relu or Clip behind a quantized tensor has nothing left to do.
#pragma once

#include "quantization/marks.h"

namespace seqto::internal {

// True when no value that a tensor with these bounds can take would be changed by the Relu or Clip.
bool within_clip(const Node& activation, const GraphIndex& index, const RealBounds& bounds);

}  // namespace seqto::internal
