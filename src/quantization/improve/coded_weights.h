// Room: quantization/improve. A constant weight as codes, in every form that an encoding has: behind DequantizeLinear,
// also with blocks; in the form that the runtime folds, of 8 and of 4 bits; as MatMulNBits reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "quantization/encode/encoding.h"

namespace seqto::internal {

// real = (code - zero_point) * scale
struct CodedWeight {
  Tensor codes;                     // as the file holds them
  std::vector<int64_t> dims;        // of the weight; of MatMulNBits outputs x inputs
  std::vector<float> scale;         // one, or one for each part of the weight
  std::vector<int32_t> zero_point;  // one, or as many as scales
  int32_t lowest = 0, highest = 0;  // codes

  // How the codes lie in their tensor.
  enum class Packing {
    kWhole,   // an element each, 4-bit types too
    kHalves,  // of 4 bits: the second half of them in the high bits of the first half's bytes
    kRows,    // of 2, 4 or 8 bits, low bits first
  };
  Packing packing = Packing::kWhole;
  int bits = 8;

  // The scales' shape broadcasts against the codes', whose index is divided by `block` on axis `block_axis` before.
  std::vector<int64_t> code_dims, scale_dims;
  size_t block_axis = 0;
  int64_t block = 1;
  // Where blocks are padded: the codes' shape before axis 1 was cut to the length that it has in the weight.
  std::vector<int64_t> padded_dims;
  int64_t kept = 0;

  // Index of an element's code, and of a code's scale.
  size_t code_at(size_t element) const;
  size_t scale_at(size_t code) const;
  std::vector<int32_t> unpacked() const;
  Tensor packed(const std::vector<int32_t>& values) const;
};

// Of a constant with codes.
CodedWeight coded_weight(const EncodedTensor& tensor);
// `dims`: of the float weight.
CodedWeight coded_weight(const EncodedWeight& weight, const std::vector<int64_t>& dims);
// Codes, scales and zero points of `weight`, which was made of `stored` and has as many of each.
void store(const CodedWeight& weight, StoredWeight& stored);

}  // namespace seqto::internal
