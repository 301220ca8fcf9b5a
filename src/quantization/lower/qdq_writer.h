// Room: quantization/lower. From marks to a model in QDQ form.
#pragma once

#include "quantization/arithmetic/weight_cache.h"
#include "quantization/encode/activation_params.h"
#include "quantization/encode/marks.h"

namespace seqto::internal {

// Throws Error{kInvalidInput} naming the tensor where a range is missing. Ids of deviations are added to
// marks.deviations.
Model write_qdq(const Model& model, const GraphView& index, Marks& marks, const ActivationParams& activations,
                const QuantizeOptions& options, WeightCache& cache);

}  // namespace seqto::internal
