// Room: quantization/lower. Layers that compute in float16, and Casts only where a tensor goes to a layer of the other
// type.
#pragma once

#include "quantization/lower/writers.h"

namespace seqto::internal {

// Layers that only move values, or compare them, join where both neighbours are float16: that saves two Casts and
// changes nothing. Tensors that a subgraph captures stay float.
Model compute_in_float16(const Model& model, const LayerSet& layers, const Float16Options& options, WeightCache& cache,
                         std::vector<std::string>& notes);

}  // namespace seqto::internal
