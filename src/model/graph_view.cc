#include "model/graph_view.h"

#include <limits>

#include "model/op_traits.h"

namespace seqto::internal {

Edges::Edges(std::span<const Node> nodes, std::span<const ValueInfo> outputs, const std::vector<bool>& removed)
    : first_(nodes.data()) {
  ends_.reserve(nodes.size() * 2);
  for (const Node& node : nodes) {
    if (!removed.empty() && removed[place(node)]) continue;
    for (const auto& name : node.outputs)
      if (!name.empty()) ends_[name].producer = &node;
    for (const auto& name : node.inputs)
      if (!name.empty()) ends_[name].readers.push_back(&node);
    for (const Attribute& a : node.attributes)
      if (const auto* opaque = std::get_if<OpaqueAttribute>(&a.value))
        for (const auto& name : opaque->captures) ++ends_[name].others;
  }
  for (const ValueInfo& v : outputs) ++ends_[v.name].others;
}

const Edges::Ends* Edges::find(const std::string& tensor) const {
  const auto it = ends_.find(tensor);
  return it == ends_.end() ? nullptr : &it->second;
}

const Node* Edges::producer(const std::string& tensor) const {
  const Ends* ends = find(tensor);
  return ends ? ends->producer : nullptr;
}

const std::vector<const Node*>& Edges::readers(const std::string& tensor) const {
  static const std::vector<const Node*> kNone;
  const Ends* ends = find(tensor);
  return ends ? ends->readers : kNone;
}

const Node* Edges::only_reader(const std::string& tensor) const {
  const Ends* ends = find(tensor);
  return ends && ends->others == 0 && ends->readers.size() == 1 ? ends->readers.front() : nullptr;
}

size_t Edges::uses(const std::string& tensor) const {
  const Ends* ends = find(tensor);
  return ends ? ends->readers.size() + ends->others : 0;
}

const Tensor* constant_value(const Node& node) {
  if (!is_constant(node) || node.outputs.empty()) return nullptr;
  const Attribute* value = node.attribute("value");
  return value ? std::get_if<Tensor>(&value->value) : nullptr;
}

GraphView::GraphView(const Model& model) : opset(model.opset()), edges(model.graph) {
  const Graph& graph = model.graph;
  for (const ValueInfo& v : graph.value_info) types[v.name] = v.type;
  for (const ValueInfo& v : graph.outputs) types[v.name] = v.type, outputs.insert(v.name);
  for (const ValueInfo& v : graph.inputs) types[v.name] = v.type, inputs.insert(v.name);
  for (const Initializer& i : graph.initializers) {
    types[i.name] = i.tensor.type();
    initializers[i.name] = &i.tensor;
  }
  for (const Node& node : graph.nodes) {
    for (const Attribute& a : node.attributes)
      if (const auto* opaque = std::get_if<OpaqueAttribute>(&a.value))
        captured.insert(opaque->captures.begin(), opaque->captures.end());
    if (const Tensor* value = constant_value(node)) constants[node.outputs[0]] = value;
    if (is_dequantize(node)) dequantized.insert(node.outputs.begin(), node.outputs.end());
  }
  find_pairs(graph);
}

void GraphView::find_pairs(const Graph& graph) {
  std::unordered_map<std::string, std::string> quantized;  // codes -> tensor
  for (const Node& node : graph.nodes)
    if (is_quantize(node) && !is_initializer(node.inputs[0])) quantized[node.outputs[0]] = node.inputs[0];
  for (const Node& node : graph.nodes)
    if (auto it = is_dequantize(node) ? quantized.find(node.inputs[0]) : quantized.end(); it != quantized.end())
      pairs.try_emplace(it->second, node.outputs[0]);
}

bool GraphView::is_float(const std::string& name) const {
  auto it = types.find(name);
  return it != types.end() && (it->second == DataType::kFloat || it->second == DataType::kFloat16);
}

const Tensor* GraphView::constant(const std::string& name) const {
  if (auto it = constants.find(name); it != constants.end()) return it->second;
  if (auto it = initializers.find(name); it != initializers.end()) return it->second;
  return nullptr;
}

bool pads_zeros(const Node& pad, const GraphView& index) {
  if (pad.float_attribute("value", 0) != 0) return false;
  if (pad.inputs.size() < 3 || pad.inputs[2].empty()) return true;
  const Tensor* value = index.constant(pad.inputs[2]);
  return value && value->is_float() && value->element_count() == 1 && element(*value, 0) == 0;
}

std::optional<std::pair<double, double>> clip_bounds(const Node& n, const GraphView& view) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!is_clip(n)) return std::pair{0.0, kInfinity};
  if (view.opset < 11)
    return std::pair<double, double>{n.float_attribute("min", std::numeric_limits<float>::lowest()),
                                     n.float_attribute("max", std::numeric_limits<float>::max())};
  std::pair<double, double> result{-kInfinity, kInfinity};
  for (size_t k = 1; k < n.inputs.size() && k < 3; ++k) {
    if (n.inputs[k].empty()) continue;
    const Tensor* t = view.constant(n.inputs[k]);
    if (!t || t->element_count() != 1) return {};
    (k == 1 ? result.first : result.second) = element(*t, 0);
  }
  return result;
}

}  // namespace seqto::internal
