// Room: quantization/encode. What ONNX Runtime made of layers when it wrote an optimized file.
#pragma once

#include "seqto/model.h"

namespace seqto::internal {

// Takes apart FusedConv, FusedGemm and FusedMatMul of com.microsoft that read a float weight: into layers that have
// integer kernels, with the activation behind them. The runtime fuses those that stay in float again. Returns how many.
int unfuse(Model& model);

}  // namespace seqto::internal
