// Room: quantization/encode. Scales and zero points of weights and of constants that are read as activations.
#pragma once

#include <string>

#include "quantization/arithmetic/weight_cache.h"
#include "quantization/encode/marks.h"

namespace seqto::internal {

// Those that an override gives, else those of the constant's values under its mark and the options. Throws
// Error{kInvalidInput} naming the tensor for a zero point outside of its type.
QuantParams constant_params(const std::string& name, const Mark& mark, const Tensor& constant,
                            const QuantizeOptions& options, WeightCache& cache);

}  // namespace seqto::internal
