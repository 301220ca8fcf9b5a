// Room: model. The operators whose outputs shape inference can tell: those of ONNX, and those that onnxruntime adds.
#pragma once

#include <onnx/defs/schema.h>

#include <string>

namespace seqto::internal {

// For shape inference alone. onnx.checker has to see ONNX's registry: an operator of com.microsoft
// stays unknown to it, so that any of its inputs and attributes are taken.
const onnx::ISchemaRegistry* shape_registry();

// ONNX's shape inference over all operators of this registry, subgraphs included, with data propagation: the values of
// small integer tensors, which shapes are made of, are followed as well. Throws
// Error{kInvalidInput} where types or shapes contradict each other.
void infer_types(onnx::ModelProto& proto);

// Whether onnxruntime has the operator in ONNX's own domain, and ONNX of this opset does not: its fusions write
// LayerNormalization and SimplifiedLayerNormalization whatever the opset is.
bool only_in_runtime(const std::string& op_type, int64_t opset);

}  // namespace seqto::internal
