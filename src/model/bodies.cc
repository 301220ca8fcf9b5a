#include "model/bodies.h"

#include <algorithm>
#include <cassert>

#include "model/proto.h"
#include "model/shape_registry.h"

namespace seqto::internal {
namespace {

onnx::AttributeProto parsed(const OpaqueAttribute& attribute) {
  onnx::AttributeProto proto;
  proto.ParseFromString(attribute.proto);
  return proto;
}

Model body_model(onnx::GraphProto graph, const std::vector<Opset>& opsets) {
  onnx::ModelProto proto;
  *proto.mutable_graph() = std::move(graph);
  Model model = from_proto(std::move(proto), {});
  model.opsets = opsets;
  return model;
}

}  // namespace

bool has_body(const Node& node) {
  return std::ranges::any_of(node.attributes,
                             [](const Attribute& a) { return std::holds_alternative<OpaqueAttribute>(a.value); });
}

std::vector<Model> parse_bodies(const OpaqueAttribute& attribute, const std::vector<Opset>& opsets) {
  onnx::AttributeProto proto = parsed(attribute);
  std::vector<Model> bodies;
  if (proto.has_g()) bodies.push_back(body_model(std::move(*proto.mutable_g()), opsets));
  for (auto& graph : *proto.mutable_graphs()) bodies.push_back(body_model(std::move(graph), opsets));
  return bodies;
}

OpaqueAttribute with_bodies(const OpaqueAttribute& attribute, const std::vector<Model>& bodies) {
  onnx::AttributeProto proto = parsed(attribute);
  auto graph = [](const Model& body) { return std::move(*to_proto(body, Weights::kAll).mutable_graph()); };
  if (proto.has_g()) *proto.mutable_g() = graph(bodies.at(0));
  for (int i = 0; i < proto.graphs_size(); ++i)
    *proto.mutable_graphs(i) = graph(bodies.at(static_cast<size_t>(i) + (proto.has_g() ? 1 : 0)));
  return opaque_attribute(proto);
}

Model infer_bodies(const Model& model) {
  onnx::ModelProto proto = to_proto(model, Weights::kSmallOnly);
  infer_types(proto);
  Model result = model;
  assert(proto.graph().node_size() == static_cast<int>(result.graph.nodes.size()));
  for (size_t i = 0; i < result.graph.nodes.size(); ++i)
    for (Attribute& a : result.graph.nodes[i].attributes)
      if (std::holds_alternative<OpaqueAttribute>(a.value))
        for (const auto& inferred : proto.graph().node(static_cast<int>(i)).attribute())
          if (inferred.name() == a.name) a.value = opaque_attribute(inferred);
  return result;
}

int64_t bytes_of_bodies(const Model& model) {
  size_t bytes = 0;
  for (const Node& node : model.graph.nodes)
    for (const Attribute& a : node.attributes)
      if (const auto* opaque = std::get_if<OpaqueAttribute>(&a.value)) bytes += opaque->proto.size();
  return static_cast<int64_t>(bytes);
}

}  // namespace seqto::internal
