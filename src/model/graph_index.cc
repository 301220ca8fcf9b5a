#include "model/graph_index.h"

namespace seqto::internal {

GraphIndex::GraphIndex(const Model& model) : opset(model.opset()) {
  const Graph& graph = model.graph;
  for (const ValueInfo& v : graph.value_info) types[v.name] = v.type;
  for (const ValueInfo& v : graph.outputs) types[v.name] = v.type, outputs.insert(v.name);
  for (const ValueInfo& v : graph.inputs) types[v.name] = v.type, inputs.insert(v.name);
  for (const Initializer& i : graph.initializers) {
    types[i.name] = i.tensor.type();
    initializers[i.name] = &i.tensor;
  }
  for (const Node& node : graph.nodes) {
    for (const auto& name : node.inputs)
      if (!name.empty()) ++readers[name];
    for (const Attribute& a : node.attributes)
      if (const auto* opaque = std::get_if<OpaqueAttribute>(&a.value))
        captured.insert(opaque->captures.begin(), opaque->captures.end());
    if (node.op_type == "Constant" && !node.outputs.empty())
      if (const Attribute* a = node.attribute("value"))
        if (const auto* tensor = std::get_if<Tensor>(&a->value)) constants[node.outputs[0]] = tensor;
    if (node.op_type == "DequantizeLinear") dequantized.insert(node.outputs.begin(), node.outputs.end());
  }
  find_pairs(graph);
}

void GraphIndex::find_pairs(const Graph& graph) {
  std::unordered_map<std::string, std::string> quantized;  // codes -> tensor
  for (const Node& node : graph.nodes)
    if (node.op_type == "QuantizeLinear" && !is_initializer(node.inputs[0]))
      quantized[node.outputs[0]] = node.inputs[0];
  for (const Node& node : graph.nodes)
    if (auto it = node.op_type == "DequantizeLinear" ? quantized.find(node.inputs[0]) : quantized.end();
        it != quantized.end())
      pairs.try_emplace(it->second, node.outputs[0]);
}

bool GraphIndex::is_float(const std::string& name) const {
  auto it = types.find(name);
  return it != types.end() && (it->second == DataType::kFloat || it->second == DataType::kFloat16);
}

const Tensor* GraphIndex::constant(const std::string& name) const {
  if (auto it = constants.find(name); it != constants.end()) return it->second;
  if (auto it = initializers.find(name); it != initializers.end()) return it->second;
  return nullptr;
}

bool pads_zeros(const Node& pad, const GraphIndex& index) {
  if (pad.float_attribute("value", 0) != 0) return false;
  if (pad.inputs.size() < 3 || pad.inputs[2].empty()) return true;
  const Tensor* value = index.constant(pad.inputs[2]);
  return value && value->is_float() && value->element_count() == 1 && element(*value, 0) == 0;
}

}  // namespace seqto::internal
