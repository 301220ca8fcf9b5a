#include "model/unneeded.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "model/bodies.h"
#include "model/op_traits.h"
#include "model/proto.h"

namespace seqto::internal {
namespace {

using Names = std::unordered_set<std::string>;

// Inputs of which no elements mean that they are absent. Elsewhere an empty tensor is a value: axes of a reduction.
struct Row {
  std::string_view op_type;
  size_t first, last;
};
constexpr Row kRows[] = {{"Resize", 1, 3}};  // roi, scales, sizes

template <class T>
bool is_empty(const Attribute& a) {
  const auto* values = std::get_if<T>(&a.value);
  return values && values->empty();
}

bool is_empty_constant(const Node& node) {
  if (!is_constant(node) || !node.domain.empty() || node.attributes.size() != 1) return false;
  const Attribute& a = node.attributes[0];
  if (const auto* tensor = std::get_if<Tensor>(&a.value)) return tensor->element_count() == 0;
  return is_empty<std::vector<float>>(a) || is_empty<std::vector<int64_t>>(a);
}

// `empty`: the constants without elements that this graph sees.
int drop(Graph& graph, Names empty, const std::vector<Opset>& opsets);

int drop_in_bodies(Node& node, const Names& empty, const std::vector<Opset>& opsets) {
  int dropped = 0;
  for (Attribute& a : node.attributes) {
    auto* opaque = std::get_if<OpaqueAttribute>(&a.value);
    if (!opaque) continue;
    std::vector<Model> bodies = parse_bodies(*opaque, opsets);
    int inside = 0;
    for (Model& body : bodies) inside += drop(body.graph, empty, opsets);
    if (inside > 0) *opaque = with_bodies(*opaque, bodies);
    dropped += inside;
  }
  return dropped;
}

int drop(Graph& graph, Names empty, const std::vector<Opset>& opsets) {
  for (const ValueInfo& v : graph.inputs) empty.erase(v.name);
  for (const Initializer& i : graph.initializers)
    if (i.tensor.type() != DataType::kString && i.tensor.element_count() == 0) empty.insert(i.name);
  for (const Node& n : graph.nodes)
    if (is_empty_constant(n)) empty.insert(n.outputs.at(0));
  int dropped = 0;
  for (Node& node : graph.nodes) {
    dropped += drop_in_bodies(node, empty, opsets);
    const auto* row = std::ranges::find(kRows, node.op_type, &Row::op_type);
    if (row == std::end(kRows) || !node.domain.empty()) continue;
    for (size_t i = row->first; i <= row->last && i < node.inputs.size(); ++i)
      if (empty.contains(node.inputs[i])) node.inputs[i].clear(), ++dropped;
  }
  return dropped;
}

bool is_export_note(const onnx::StringStringEntryProto& note) {
  const std::string& key = note.key();
  return key == "namespace" || key.starts_with("pkg.torch.") || key.starts_with("pkg.onnxscript.");
}

// Each returns whether there was one.
bool drop_notes(google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& notes) {
  const auto kept = std::remove_if(notes.begin(), notes.end(), is_export_note);
  const bool any = kept != notes.end();
  notes.erase(kept, notes.end());
  return any;
}

bool drop_notes(onnx::GraphProto& graph);

bool drop_notes(onnx::AttributeProto& attribute) {
  bool any = attribute.has_g() && drop_notes(*attribute.mutable_g());
  for (onnx::GraphProto& graph : *attribute.mutable_graphs()) any |= drop_notes(graph);
  return any;
}

bool drop_notes(onnx::ValueInfoProto& value) { return drop_notes(*value.mutable_metadata_props()); }

bool drop_notes(onnx::NodeProto& node) {
  bool any = drop_notes(*node.mutable_metadata_props());
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) any |= drop_notes(attribute);
  return any;
}

bool drop_notes(onnx::GraphProto& graph) {
  bool any = drop_notes(*graph.mutable_metadata_props());
  for (onnx::NodeProto& node : *graph.mutable_node()) any |= drop_notes(node);
  for (auto* values : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()})
    for (onnx::ValueInfoProto& value : *values) any |= drop_notes(value);
  return any;
}

bool drop_notes(onnx::ModelProto& model) { return model.has_graph() && drop_notes(*model.mutable_graph()); }

// `serialized`: as Model carries such a message.
template <class Message>
void drop_notes(std::string& serialized) {
  Message message;
  if (!serialized.empty() && message.ParseFromString(serialized) && drop_notes(message))
    serialized = message.SerializeAsString();
}

}  // namespace

int drop_empty_inputs(Model& model) { return drop(model.graph, {}, model.opsets); }

Model without_export_notes(Model model) {
  for (Node& node : model.graph.nodes) {
    drop_notes<onnx::NodeProto>(node.rest);
    for (Attribute& a : node.attributes)
      if (auto* opaque = std::get_if<OpaqueAttribute>(&a.value)) drop_notes<onnx::AttributeProto>(opaque->proto);
  }
  for (auto* values : {&model.graph.inputs, &model.graph.outputs, &model.graph.value_info})
    for (ValueInfo& value : *values) drop_notes<onnx::ValueInfoProto>(value.proto);
  drop_notes<onnx::ModelProto>(model.rest);
  return model;
}

int64_t export_note_bytes(const Model& model) {
  constexpr double kMuch = 0.05;
  const int64_t all = serialized_size(model), bytes = all - serialized_size(without_export_notes(model));
  return static_cast<double>(bytes) < kMuch * static_cast<double>(all) ? 0 : bytes;
}

}  // namespace seqto::internal
