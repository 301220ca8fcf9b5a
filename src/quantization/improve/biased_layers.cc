#include "quantization/improve/biased_layers.h"

#include "model/op_traits.h"

namespace seqto::internal {

BiasedLayers::BiasedLayers(const Model& model) : index_(model) {
  for (size_t i = 0; i < model.graph.nodes.size(); ++i)
    if (auto layer = biased(model.graph.nodes[i], i)) layers_.push_back(*layer);
}

const Tensor* BiasedLayers::constant(const std::string& name) const {
  auto it = index_.initializers.find(name);
  return it == index_.initializers.end() ? nullptr : it->second;
}

const Node* BiasedLayers::dequantizer(const Node& node, size_t input) const {
  if (node.inputs.size() <= input) return nullptr;
  const Node* producer = index_.edges.producer(node.inputs[input]);
  return producer && is_dequantize(*producer) ? producer : nullptr;
}

std::optional<BiasedLayer> BiasedLayers::biased(const Node& node, size_t i) const {
  if (!(has(node, kConv) || is_gemm(node)) || has_factors(node) || !node.domain.empty()) return {};
  BiasedLayer layer{i, dequantizer(node, 0), dequantizer(node, 1), dequantizer(node, 2)};
  if (node.inputs.size() < 2 || !index_.edges.producer(node.inputs[1])) return {};  // a float weight
  if (!shiftable(node, layer)) return {};
  return layer;
}

// An activation that is added as a bias is nothing to shift.
bool BiasedLayers::shiftable(const Node& node, const BiasedLayer& layer) const {
  if (!bias_input(node)) return true;
  const Tensor* bias = constant(layer.bias ? layer.bias->inputs[0] : node.inputs[2]);
  if (!bias) return false;
  if (!layer.bias) return bias->type() == DataType::kFloat;
  const Tensor* scale = constant(layer.bias->inputs[1]);
  return bias->type() == DataType::kInt32 && scale &&
         (scale->element_count() == 1 || scale->element_count() == bias->element_count());
}

}  // namespace seqto::internal
