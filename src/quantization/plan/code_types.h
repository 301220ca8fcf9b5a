// Room: quantization/plan. The types of codes and the values that each can hold.
#pragma once

#include <cstdint>

#include "seqto/model.h"

namespace seqto::internal {

struct QuantLimits {
  int32_t lowest = 0, highest = 0;
};
// Whether a tensor of this type can hold codes: 4, 8 and 16 bits, signed and not.
bool is_code_type(DataType type);
bool is_8_bits(DataType type);
bool is_4_bits(DataType type);
constexpr bool is_16_bits(DataType type) { return type == DataType::kInt16 || type == DataType::kUint16; }  // of those
// The values that the scale is computed for; reduce_range goes before symmetric.
QuantLimits quant_limits(DataType type, bool reduce_range = false, bool symmetric = false);

}  // namespace seqto::internal
