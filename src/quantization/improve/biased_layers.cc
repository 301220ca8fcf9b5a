#include "quantization/improve/biased_layers.h"

namespace seqto::internal {

BiasedLayers::BiasedLayers(const Model& model) : index_(model) {
  for (const Node& n : model.graph.nodes)
    for (const auto& output : n.outputs) producers_[output] = &n;
  for (size_t i = 0; i < model.graph.nodes.size(); ++i)
    if (auto layer = biased(model.graph.nodes[i], i)) layers_.push_back(*layer);
}

const Tensor* BiasedLayers::constant(const std::string& name) const {
  auto it = index_.initializers.find(name);
  return it == index_.initializers.end() ? nullptr : it->second;
}

const Node* BiasedLayers::dequantizer(const Node& node, size_t input) const {
  if (node.inputs.size() <= input) return nullptr;
  auto it = producers_.find(node.inputs[input]);
  return it != producers_.end() && it->second->op_type == "DequantizeLinear" ? it->second : nullptr;
}

std::optional<BiasedLayer> BiasedLayers::biased(const Node& node, size_t i) const {
  bool conv = node.op_type == "Conv" || node.op_type == "ConvTranspose";
  if ((!conv && node.op_type != "Gemm") || !node.domain.empty()) return {};
  if (!conv && (node.float_attribute("alpha", 1) != 1 || node.float_attribute("beta", 1) != 1)) return {};
  BiasedLayer layer{i, dequantizer(node, 0), dequantizer(node, 1), dequantizer(node, 2)};
  if (node.inputs.size() < 2 || !producers_.contains(node.inputs[1])) return {};  // a float weight
  if (!shiftable(node, layer)) return {};
  return layer;
}

// An activation that is added as a bias is nothing to shift.
bool BiasedLayers::shiftable(const Node& node, const BiasedLayer& layer) const {
  if (node.inputs.size() < 3 || node.inputs[2].empty()) return true;
  const Tensor* bias = constant(layer.bias ? layer.bias->inputs[0] : node.inputs[2]);
  if (!bias) return false;
  if (!layer.bias) return bias->type() == DataType::kFloat;
  const Tensor* scale = constant(layer.bias->inputs[1]);
  return bias->type() == DataType::kInt32 && scale &&
         (scale->element_count() == 1 || scale->element_count() == bias->element_count());
}

}  // namespace seqto::internal
