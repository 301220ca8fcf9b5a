// Room: quantization/arithmetic. Float weights to codes, scales and zero points in blocks.
#pragma once

#include <string>
#include <vector>

#include "quantization/arithmetic/blocks.h"
#include "quantization/arithmetic/weight_cache.h"

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
Tensor scales_for(const Tensor& weight, const std::vector<float>& scales);

}  // namespace seqto::internal
