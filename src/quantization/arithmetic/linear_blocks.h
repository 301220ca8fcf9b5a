// Room: quantization/arithmetic. Weights with a scale for every block of values along an axis (opset 21).
#pragma once

#include <span>
#include <vector>

#include "quantization/arithmetic/arithmetic.h"

namespace seqto::internal {

// A tensor seen as outer x along x inner, `along` cut into blocks; the last one may be shorter.
struct Blocks {
  Blocks(const std::vector<int64_t>& dims, int64_t axis, int64_t block_size);

  size_t outer = 1, along = 1, inner = 1, size = 1, count = 0;

  size_t scales() const { return outer * count * inner; }
  size_t scale_index(size_t o, size_t a, size_t i) const { return (o * count + a / size) * inner + i; }
};

QuantParams block_params(std::span<const float> values, const std::vector<int64_t>& dims, const WeightRule& rule,
                         DataType float_type);
Tensor quantize_blocks(std::span<const float> values, const std::vector<int64_t>& dims, const QuantParams& params);

}  // namespace seqto::internal
