// Room: quantization/arithmetic. Weights as files hold them, back to float: per tensor, per channel, in blocks, packed.
#pragma once

#include "seqto/model.h"

namespace seqto::internal {

struct StoredScale {
  const Tensor* scale = nullptr;
  const Tensor* zero_point = nullptr;  // nothing: 0
  int64_t axis = 0;                    // where `scale` has more than one element; negative counts from the end
  int64_t block = 0;                   // > 0: elements along `axis` that share a scale
};
// (q - zero_point) * scale, computed in float; of the scale's type.
Tensor dequantized(const Tensor& codes, const StoredScale& how);

// The [K, N] weight of a MatMulNBits node.
Tensor unpacked_nbits(const Node& node, const Tensor& packed, const Tensor& scales, const Tensor* zero_points);

// The table of a GatherBlockQuantized node whose codes lie in bytes, low bits first: a row for each of the scales'.
Tensor unpacked_rows(const Node& node, const Tensor& packed, const StoredScale& how);

// Axes permuted, as ONNX's Transpose.
Tensor transposed(const Tensor& tensor, const std::vector<int64_t>& permutation);

// `values` in a float type.
Tensor in_type(DataType type, std::vector<int64_t> dims, std::vector<float> values);

}  // namespace seqto::internal
