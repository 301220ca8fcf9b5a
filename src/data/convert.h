// Elements of one type as another: arrays to what the model reads.
#pragma once

#include <cstdint>
#include <string>

#include "seqto/model.h"

namespace seqto::internal {

uint16_t to_half(float value);  // nearest, ties to even
float from_half(uint16_t bits);

// The tensor in another numeric type; the same tensor when it has that type already.
// Throws Error{kInvalidInput} that begins with `name` when an integer type cannot hold an element, or a type is no
// number.
Tensor convert(const Tensor& tensor, DataType type, const std::string& name);

}  // namespace seqto::internal
