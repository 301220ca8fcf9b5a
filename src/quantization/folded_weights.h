// Room: quantization. Weights stored in 8 or 4 bits and turned back to float by operators that the runtime folds when
// it loads the model: Cast, Sub where there is a zero point, Mul; before them BitShift and Concat that unpack two codes
// of a byte, behind them Reshape where the weight lies in blocks. Unlike DequantizeLinear, which runtimes keep because
// it marks a quantized layer, they cost no time at run.
#pragma once

#include <string>

#include "quantization/blocks.h"
#include "quantization/graph_edit.h"
#include "quantization/qdq_writer.h"

namespace seqto::internal {

struct StoredWeight {
  Cut cut;
  int bits = 8;
  Tensor codes;  // one byte each, or with 4 bits the second half of them in the high bits of the first half's bytes
  Tensor scale;  // in the weight's type, one for each block
  Tensor zero_point;  // uint8: one for each block, or one for all; empty: none
  // What the weight takes in the file, with its nodes, about.
  int64_t file_bytes() const;
};

// Made once for each weight and cut. 8 bits are rounded as in QDQ form, 4 bits as MatMulNBits's are.
StoredWeight store_weight(WeightCache& cache, const std::string& name, const Tensor& weight, const Cut& cut, int bits,
                          bool symmetric);

// The scales of a weight's blocks, in the weight's type.
Tensor scales_for(const Tensor& weight, std::vector<float> scales);

// Adds what the weight `name` of shape `dims` is made of; returns the tensor that holds it again.
std::string add_folded(GraphEdit& edit, const std::string& name, const std::vector<int64_t>& dims,
                       const StoredWeight& stored);

}  // namespace seqto::internal
