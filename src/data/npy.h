// numpy's .npy: one array, a Python dictionary as its header.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "seqto/model.h"

namespace seqto::internal {

bool is_npy(std::span<const std::byte> bytes);

// Versions 1 to 3, little-endian, C or Fortran order (the tensor is in C order). The tensor copies the data.
// Throws Error{kInvalidInput} that begins with `name`.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name);

// All before the data. Throws Error{kInvalidInput} for types that numpy has not.
std::string npy_header(const Tensor& tensor, const std::string& name);

}  // namespace seqto::internal
