// Room: model. Between onnx::ModelProto and Model; the only header that lets protobuf in.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <string>

#include "seqto/model.h"

namespace seqto::internal {

// `folder`: where external weights are looked for. Weight bytes are moved out of `proto`, not copied.
Model from_proto(onnx::ModelProto proto, const std::filesystem::path& folder);

enum class Weights { kAll, kSmallOnly };
// kSmallOnly leaves the data of big initializers out: enough for shape inference.
onnx::ModelProto to_proto(const Model& model, Weights weights);

// ModelProto without graph, GraphProto without initializers, TensorProto without data.
onnx::ModelProto model_head(const Model& model);
onnx::GraphProto graph_head(const Model& model);
onnx::TensorProto tensor_head(const Initializer& initializer);

}  // namespace seqto::internal
