// Room: quantization/lower. Weights stored in 8 or 4 bits and turned back to float by operators that the runtime folds
// when it loads the model: Cast, Sub where there is a zero point, Mul; before them BitShift and Concat that unpack two
// codes of a byte, behind them Reshape where the weight lies in blocks. Unlike DequantizeLinear, which runtimes keep
// because it marks a quantized layer, they cost no time at run.
#pragma once

#include <string>

#include "quantization/arithmetic/store_weight.h"
#include "quantization/improve/graph_edit.h"

namespace seqto::internal {

// Adds what the weight `name` of shape `dims` is made of; returns the tensor that holds it again.
std::string add_folded(GraphEdit& edit, const std::string& name, const std::vector<int64_t>& dims,
                       const StoredWeight& stored);

}  // namespace seqto::internal
