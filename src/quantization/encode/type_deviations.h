// Wing: encode. Where onnxruntime gives a static model other types, or stops because it knows none: D17, D34 of
// docs/reference/compatibility.md.
#pragma once

#include <vector>

#include "quantization/encode/activation_params.h"
#include "quantization/encode/marks.h"

namespace seqto::internal {

// onnxruntime gives some float16 tensors a scale in float32: a Softmax's output, and those whose scale or upper bound
// is given or whose scale is snapped.
bool has_float32_scale(const Model& model, const GraphView& index, const std::vector<bool>& selected,
                       const QuantizeOptions& options, const ActivationParams& params, Marks& marks);

// onnxruntime stops at a Softmax whose output was not calibrated because its type is unknown.
bool has_unranged_softmax(const Model& model, const std::vector<bool>& selected, const Ranges& ranges);

}  // namespace seqto::internal
