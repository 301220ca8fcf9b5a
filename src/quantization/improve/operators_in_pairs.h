// Room: quantization/improve. A quantized model with its layers among operators on codes written as float layers
// between pairs: the same encoding, with inputs and outputs in float for improvers to look at.
#pragma once

#include "seqto/model.h"

namespace seqto::internal {

// QLinearConv, QLinearMatMul and QGemm as the layers that they were, under these layers' names. Left alone: a QGemm
// with factors, operators whose parameters are computed, and scales by channel below opset 13, which has no axis for
// them.
Model operators_in_pairs(Model quantized);

}  // namespace seqto::internal
