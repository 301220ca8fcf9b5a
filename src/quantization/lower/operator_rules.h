// Room: quantization/lower. Operators that take codes as they are, in QOperator form and in dynamic quantization alike.
#pragma once

#include "quantization/lower/operator_writer.h"

namespace seqto::internal {

// Per channel means per column of a constant matrix; of higher ranks the runtime takes one scale only.
std::optional<int64_t> column_axis(OperatorWriter& w, const std::string& weight);
// True when the options leave products of two activations in float, and this is one.
bool is_excluded_product(const OperatorWriter& w, const std::string& b);

// onnxruntime's gate: by name and op type; unnamed nodes go by the name "".
bool is_selected(const OperatorWriter& w, const Node& n, const LayerSet& layers);

// Gather from a constant table: the table is stored quantized.
bool write_gather(OperatorWriter& w, const Node& n);
// Reshape, Transpose and others that only move values: they work on the codes of their first input.
bool write_moved(OperatorWriter& w, const Node& n);
bool write_embed_layer_norm(OperatorWriter& w, const Node& n);

}  // namespace seqto::internal
