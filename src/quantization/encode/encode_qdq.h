// Room: quantization/encode. Static layers in QDQ form: from marks and ranges to scales, zero points and codes.
#pragma once

#include "quantization/arithmetic/weight_cache.h"
#include "quantization/encode/activation_params.h"
#include "quantization/encode/encoding.h"
#include "quantization/encode/marks.h"

namespace seqto::internal {

// The static layers of a candidate. All of it outlives the encoding of them.
struct StaticNodes {
  const Model& model;
  const GraphView& view;              // of the model
  const std::vector<bool>& selected;  // by place
  const RangeView& ranges;            // for the selected ones
};

// Throws Error{kInvalidInput} naming the tensor where a range is missing.
Encoding encode_qdq(const StaticNodes& nodes, const QuantizeOptions& options, WeightCache& cache);

}  // namespace seqto::internal
