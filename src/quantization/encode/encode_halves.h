// Room: quantization/encode. Layers that compute in float16.
#pragma once

#include "quantization/arithmetic/weight_cache.h"
#include "quantization/encode/encoding.h"
#include "quantization/plan/layer_fields.h"

namespace seqto::internal {

// Layers that only move values, or compare them, join where both neighbours are float16: that saves two Casts and
// changes nothing. Tensors that a body captures stay float. Places are those of this model.
Encoding encode_halves(const Model& model, const LayerSet& layers, const Float16Options& options, WeightCache& cache);

}  // namespace seqto::internal
