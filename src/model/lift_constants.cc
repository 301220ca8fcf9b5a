#include <algorithm>
#include <unordered_set>

#include "seqto/model.h"

namespace seqto {
namespace {

// The value of a Constant node; nothing for strings and sparse tensors.
std::optional<Tensor> constant_value(const Node& node) {
  if (node.attributes.size() != 1) return {};
  const Attribute& a = node.attributes[0];
  if (const auto* tensor = std::get_if<Tensor>(&a.value))
    return a.name == "value" && tensor->type() != DataType::kString ? std::optional(*tensor) : std::nullopt;
  if (const auto* f = std::get_if<float>(&a.value)) return float_tensor({}, {*f});
  if (const auto* i = std::get_if<int64_t>(&a.value)) return int64_tensor({}, {*i});
  if (const auto* floats = std::get_if<std::vector<float>>(&a.value))
    return float_tensor({static_cast<int64_t>(floats->size())}, *floats);
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&a.value))
    return int64_tensor({static_cast<int64_t>(ints->size())}, *ints);
  return {};
}

bool is_constant(const Node& node) { return node.op_type == "Constant" && node.domain.empty(); }

}  // namespace

bool has_constant_node_weights(const Model& model) {
  static const std::unordered_set<std::string_view> kWeighted{
      "Conv", "ConvTranspose", "Gemm", "MatMul",    "Gather",
      "LSTM", "GRU",           "RNN",  "Attention", "EmbedLayerNormalization"};
  std::unordered_set<std::string_view> matrices;
  for (const Node& node : model.graph.nodes)
    if (is_constant(node))
      if (auto value = constant_value(node); value && value->is_float() && value->dims().size() >= 2)
        matrices.insert(node.outputs[0]);
  return !matrices.empty() && std::ranges::any_of(model.graph.nodes, [&](const Node& node) {
    return kWeighted.contains(node.op_type) &&
           std::ranges::any_of(node.inputs, [&](const std::string& name) { return matrices.contains(name); });
  });
}

int lift_constants(Model& model) {
  Graph& graph = model.graph;
  std::unordered_set<std::string> outputs;
  for (const ValueInfo& v : graph.outputs) outputs.insert(v.name);
  int lifted = 0;
  std::erase_if(graph.nodes, [&](const Node& node) {
    // A graph's output has to come out of a node.
    if (!is_constant(node) || outputs.contains(node.outputs[0])) return false;
    auto value = constant_value(node);
    if (!value) return false;
    graph.initializers.push_back({node.outputs[0], std::move(*value)});
    ++lifted;
    return true;
  });
  // Before version 4 each initializer had to be an input, too.
  if (lifted > 0) model.ir_version = std::max<int64_t>(model.ir_version, 4);
  return lifted;
}

}  // namespace seqto
