// Room: quantization/arithmetic. Float constants as float16.
#pragma once

#include <string>
#include <vector>

#include "quantization/arithmetic/weight_cache.h"

namespace seqto::internal {

// The constant rounded to float16, ties to even. Finite values beyond options.max_finite_val become it, with a note;
// Error{kInvalidInput} with options.strict. With options.compute no nonzero value becomes zero.
Tensor to_halves(const std::string& name, const Tensor& values, const Float16Options& options,
                 std::vector<std::string>& notes);

}  // namespace seqto::internal
