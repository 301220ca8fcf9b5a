// Wing: encode. Where onnxruntime gives a static model other types, or stops because it knows none: D17, D34 of
// docs/reference/compatibility.md.
#pragma once

#include <functional>

#include "quantization/encode/encode_qdq.h"

namespace seqto::internal {

// onnxruntime gives some float16 tensors a scale in float32: a Softmax's output, and those whose scale or upper bound
// is given or whose scale is snapped.
bool has_float32_scale(const StaticNodes& nodes, const QuantizeOptions& options, const ActivationParams& params,
                       Marks& marks);

// onnxruntime stops at a Softmax whose output was not calibrated because its type is unknown. `selected`: by place.
bool has_unranged_softmax(const Model& model, const RangeView& ranges, const std::function<bool(size_t)>& selected);

}  // namespace seqto::internal
