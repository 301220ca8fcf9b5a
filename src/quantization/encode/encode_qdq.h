// Room: quantization/encode. Static layers in QDQ form: from marks and ranges to scales, zero points and codes.
#pragma once

#include "quantization/arithmetic/weight_cache.h"
#include "quantization/encode/activation_params.h"
#include "quantization/encode/encoding.h"
#include "quantization/encode/marks.h"

namespace seqto::internal {

// Throws Error{kInvalidInput} naming the tensor where a range is missing. The marks' deviations are the encoding's.
Encoding encode_qdq(const GraphView& view, Marks marks, const ActivationParams& activations,
                    const QuantizeOptions& options, WeightCache& cache);

}  // namespace seqto::internal
