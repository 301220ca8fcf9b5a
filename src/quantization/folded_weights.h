// Room: quantization. A stored weight turned back into a float weight by operators that the runtime folds when it loads:
// Cast, Sub where there is a zero point, Mul, and Reshape where the weight is stored in blocks. Unlike
// DequantizeLinear, which runtimes keep because it marks a quantized layer, they cost no time at run.
#pragma once

#include <string>

#include "quantization/blocks.h"
#include "quantization/graph_edit.h"

namespace seqto::internal {

struct StoredWeight {
  Cut cut;
  Tensor codes;       // 8 bits, elements in the order of the padded weight
  Tensor scale;       // in the weight's type, one for each block
  Tensor zero_point;  // the same, or empty: none
  int64_t size_bytes() const;
};

// Adds what the weight `name` of shape `dims` is made of; returns the tensor that holds it again. `codes` is the name of
// a tensor with the codes, if they do not lie there as they are.
std::string add_folded(GraphEdit& edit, const std::string& name, const std::vector<int64_t>& dims,
                       const StoredWeight& stored, const std::string& codes = {});

}  // namespace seqto::internal
