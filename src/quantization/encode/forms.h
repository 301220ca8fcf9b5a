// Room: quantization/encode. The float model as it is quantized, of any opset (quantize.h: quantizable_form,
// tunable_form).
#pragma once

#include "seqto/quantize.h"

namespace seqto::internal {

// With `options` telling what else is done. Float16 tensors may need a newer opset than `opset`, and get it.
Prepared form_of_opset(const Model& model, const QuantizeOptions& options, int64_t opset, bool fold_batch_norms);

}  // namespace seqto::internal
