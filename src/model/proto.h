// Room: model. Between onnx::ModelProto and Model; the only header that lets protobuf in.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "seqto/model.h"

namespace seqto::internal {

// What a ModelProto refers to outside of itself.
struct Outside {
  std::filesystem::path folder;            // where external weights are looked for
  std::shared_ptr<const MappedFile> file;  // that the proto was read from without the bytes of some initializers:
  std::vector<std::string_view> raw_data;  // these, one an initializer; null data where the proto has them
  const Model* left_out = nullptr;         // to_proto(..., kSmallOnly) was made of this model: weights come from there
};
// Weight bytes are moved out of `proto`, not copied.
Model from_proto(onnx::ModelProto proto, const Outside& outside);

// A tensor by itself, with its name. Throws Error{kInvalidInput} where its bytes are damaged or lie in another file.
Initializer initializer_from(onnx::TensorProto proto);

// Throws Error{kInvalidInput} where the message is larger than protobuf takes.
std::string serialized(const google::protobuf::MessageLite& message);

// A subgraph (or whatever else Attribute has no field for) as it is carried: serialized, with the outer tensors it
// reads.
OpaqueAttribute opaque_attribute(const onnx::AttributeProto& proto);

// kSmallOnly leaves the data of big initializers out: enough for shape inference. kSmallElseEmpty gives them no
// elements either, so that onnx.checker, which compares sizes, has nothing to say about them.
enum class Weights { kAll, kSmallOnly, kSmallElseEmpty };
onnx::ModelProto to_proto(const Model& model, Weights weights);

// ModelProto without graph, GraphProto without initializers, TensorProto without data.
onnx::ModelProto model_head(const Model& model);
onnx::GraphProto graph_head(const Model& model);
onnx::TensorProto tensor_head(const Initializer& initializer);

}  // namespace seqto::internal
