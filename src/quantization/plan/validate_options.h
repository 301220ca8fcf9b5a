// Room: quantization/plan. Options that no model can be written with.
#pragma once

#include "seqto/quantize.h"

namespace seqto::internal {

// Throws Error for what no plan can be written with: types, overrides, an opset that is too old.
void validate_options(const Model& model, const QuantizeOptions& options);
// True when a node of the types that are quantized has to do with a float16 tensor.
bool reads_float16(const Model& model, const QuantizeOptions& options);
constexpr int64_t kFloat16Pairs = 19;  // the opset that Q and DQ of such tensors came with
// What cannot be written at this opset; `half`: with tensors of float16.
void require_opset(int64_t found, const QuantizeOptions& options, bool half = false);
// And for pairs of types that static layers cannot have.
void validate_static_types(const QuantizeOptions& options);
// Blocks and bits of int4_weights.
void validate_low_bits(const WeightOnlyOptions& options);

}  // namespace seqto::internal
