#include <algorithm>
#include <unordered_set>

#include "model/op_traits.h"

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

}  // namespace

int lift_constants(Model& model) {
  Graph& graph = model.graph;
  std::unordered_set<std::string> outputs;
  for (const ValueInfo& v : graph.outputs) outputs.insert(v.name);
  int lifted = 0;
  std::erase_if(graph.nodes, [&](const Node& node) {
    // A graph's output has to come out of a node.
    if (!internal::is_constant(node) || !node.domain.empty() || outputs.contains(node.outputs[0])) return false;
    auto value = constant_value(node);
    if (!value) return false;
    graph.initializers.push_back({node.outputs[0], std::move(*value)});
    ++lifted;
    return true;
  });
  return lifted;
}

}  // namespace seqto
