// Room: model. The bodies of If, Loop and Scan, which a Model carries as serialized attributes.
#pragma once

#include "seqto/model.h"

namespace seqto::internal {

bool has_body(const Node& node);

// The graphs of the attribute, each in a model of its own with these opsets; none where it holds something else.
std::vector<Model> parse_bodies(const OpaqueAttribute& attribute, const std::vector<Opset>& opsets);
// The attribute with these graphs in place of its own.
OpaqueAttribute with_bodies(const OpaqueAttribute& attribute, const std::vector<Model>& bodies);

// The model with the types of the tensors inside its bodies, where ONNX's shape inference finds them.
Model infer_bodies(const Model& model);

// Of the model's file.
int64_t bytes_of_bodies(const Model& model);

// Calls f with every node of the graph's bodies, at any depth.
template <class F>
void for_each_body_node(const Model& model, F f) {
  for (const Node& node : model.graph.nodes)
    for (const Attribute& a : node.attributes)
      if (const auto* opaque = std::get_if<OpaqueAttribute>(&a.value))
        for (const Model& body : parse_bodies(*opaque, model.opsets)) {
          for (const Node& inner : body.graph.nodes) f(inner);
          for_each_body_node(body, f);
        }
}

}  // namespace seqto::internal
