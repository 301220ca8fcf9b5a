// Room: quantization/encode. Operators that take codes as they are, in QOperator form and in dynamic quantization
// alike.
#pragma once

#include "quantization/encode/operator_encoder.h"

namespace seqto::internal {

// The layers in QOperator form, or with `context.ranges` null in that of dynamic quantization.
Encoding encode_operators(const Model& model, const GraphView& view, const LayerSet& layers,
                          const OperatorContext& context);

// Per channel means per column of a constant matrix; of higher ranks the runtime takes one scale only.
std::optional<int64_t> column_axis(OperatorEncoder& e, const std::string& weight);
// True when the options leave products of two activations in float, and this is one.
bool is_excluded_product(OperatorEncoder& e, const std::string& b);

// onnxruntime's gate: by name and op type; unnamed nodes go by the name "".
bool is_selected(OperatorEncoder& e, const Node& n, const LayerSet& layers);

// A node in each of the two forms: true where it is encoded, false where it stays as it is.
bool encode_qoperator_node(OperatorEncoder& e, const Node& n, const LayerSet& layers);
bool encode_dynamic_node(OperatorEncoder& e, const Node& n, const LayerSet& layers);

// Gather from a constant table: the table is stored quantized.
bool encode_gather(OperatorEncoder& e, const Node& n);
// Reshape, Transpose and others that only move values: they work on the codes of their first input.
bool encode_moved(OperatorEncoder& e, const Node& n);
bool encode_embed_layer_norm(OperatorEncoder& e, const Node& n);

}  // namespace seqto::internal
