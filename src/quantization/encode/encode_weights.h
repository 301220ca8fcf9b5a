// Room: quantization/encode. Layers whose weights alone are stored in fewer bits: what each weight is stored as.
#pragma once

#include "quantization/arithmetic/weight_cache.h"
#include "quantization/encode/encoding.h"
#include "quantization/plan/layer_fields.h"

namespace seqto::internal {

// `scheme`: int8_weights, int4_weights or float16. Readers have their places in this model. Notes: one sentence for
// each weight that was asked for and stays as it is, and for each value that was changed.
Encoding encode_weights(const Model& model, Scheme scheme, const LayerSet& layers, const LayerwiseOptions& options,
                        WeightCache& cache);

}  // namespace seqto::internal
