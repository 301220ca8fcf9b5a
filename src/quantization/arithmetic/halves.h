// Room: quantization/arithmetic. Float constants as float16.
#pragma once

#include <string>

#include "seqto/quantize.h"

namespace seqto::internal {

struct HalfTensor {
  Tensor values;
  std::string note;  // of values that became others; may be empty
};

// The constant rounded to float16, ties to even. Finite values beyond options.max_finite_val become it, with a note;
// Error{kInvalidInput} with options.strict. With options.compute no nonzero value becomes zero.
HalfTensor to_halves(const std::string& name, const Tensor& values, const Float16Options& options);

}  // namespace seqto::internal
