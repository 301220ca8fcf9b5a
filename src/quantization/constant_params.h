// Room: quantization. Scales and zero points of weights and of constants that are read as activations.
#pragma once

#include <string>

#include "quantization/qdq_writer.h"

namespace seqto::internal {

// Those that an override gives, else those of the constant's values under its mark and the options. Throws
// Error{kInvalidInput} naming the tensor for a zero point outside of its type.
QuantParams constant_params(const std::string& name, const Mark& mark, const Tensor& constant,
                            const QuantizeOptions& options, WeightCache& cache);

}  // namespace seqto::internal
