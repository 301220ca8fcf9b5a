#include <cmath>
#include <unordered_map>

#include "seqto/model.h"

namespace seqto {
namespace {

struct Readers {
  std::unordered_map<std::string, int> count;
  explicit Readers(const Graph& graph) {
    for (const Node& n : graph.nodes) {
      for (const auto& name : n.inputs) ++count[name];
      for (const Attribute& a : n.attributes)
        if (const auto* opaque = std::get_if<OpaqueAttribute>(&a.value))
          for (const auto& name : opaque->captures) ++count[name];
    }
    for (const ValueInfo& v : graph.outputs) ++count[v.name];
  }
};

// Which axis of the weight is the output channel, and how many consecutive groups repeat over it.
int output_axis(const Node& node) {
  if (node.op_type == "Conv") return 0;
  if (node.op_type == "ConvTranspose") return node.int_attribute("group", 1) == 1 ? 1 : -1;
  if (node.op_type == "Gemm")
    return node.float_attribute("alpha", 1) == 1 && node.float_attribute("beta", 1) == 1
               ? (node.int_attribute("transB", 0) ? 0 : 1)
               : -1;
  return -1;
}

Tensor scaled(const Tensor& weight, int axis, const std::vector<double>& factor) {
  auto in = weight.values<float>();
  std::vector<float> out(in.size());
  size_t inner = 1;
  for (size_t d = static_cast<size_t>(axis) + 1; d < weight.dims().size(); ++d)
    inner *= static_cast<size_t>(weight.dims()[d]);
  for (size_t i = 0; i < in.size(); ++i) out[i] = static_cast<float>(in[i] * factor[i / inner % factor.size()]);
  return float_tensor(weight.dims(), std::move(out));
}

}  // namespace

int fold_batch_norms(Model& model) {
  Graph& graph = model.graph;
  Readers readers(graph);
  std::unordered_map<std::string, size_t> producer, initializer;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const auto& o : graph.nodes[i].outputs) producer[o] = i;
  for (size_t i = 0; i < graph.initializers.size(); ++i) initializer[graph.initializers[i].name] = i;
  auto constant = [&](const std::string& name) -> const Tensor* {
    auto it = initializer.find(name);
    if (it == initializer.end()) return nullptr;
    const Tensor& t = graph.initializers[it->second].tensor;
    return t.type() == DataType::kFloat ? &t : nullptr;
  };

  std::vector<bool> removed(graph.nodes.size());
  int folded = 0;
  for (size_t b = 0; b < graph.nodes.size(); ++b) {
    const Node& norm = graph.nodes[b];
    if (norm.op_type != "BatchNormalization" || !norm.domain.empty() || norm.inputs.size() < 5) continue;
    if (norm.int_attribute("training_mode", 0) != 0) continue;
    bool other_outputs = false;
    for (size_t o = 1; o < norm.outputs.size(); ++o)
      other_outputs |= !norm.outputs[o].empty() && readers.count[norm.outputs[o]] > 0;
    auto it = producer.find(norm.inputs[0]);
    if (other_outputs || it == producer.end() || readers.count[norm.inputs[0]] != 1) continue;
    Node& layer = graph.nodes[it->second];
    int axis = layer.domain.empty() ? output_axis(layer) : -1;
    if (axis < 0 || layer.inputs.size() < 2 || removed[it->second]) continue;
    const Tensor* weight = constant(layer.inputs[1]);
    bool has_bias = layer.inputs.size() > 2 && !layer.inputs[2].empty();
    const Tensor* bias = has_bias ? constant(layer.inputs[2]) : nullptr;
    const Tensor *scale = constant(norm.inputs[1]), *shift = constant(norm.inputs[2]), *mean = constant(norm.inputs[3]),
                 *variance = constant(norm.inputs[4]);
    // A shared weight would be scaled for its other layers too.
    if (!weight || (has_bias && !bias) || !scale || !shift || !mean || !variance || readers.count[layer.inputs[1]] != 1)
      continue;
    size_t channels = static_cast<size_t>(scale->element_count());
    auto fits = [&](const Tensor* t) { return !t || t->element_count() == static_cast<int64_t>(channels); };
    if (static_cast<int64_t>(channels) != weight->dims()[static_cast<size_t>(axis)] || !fits(bias) || !fits(shift) ||
        !fits(mean) || !fits(variance))
      continue;

    double epsilon = norm.float_attribute("epsilon", 1e-5f);
    std::vector<double> factor(channels);
    std::vector<float> new_bias(channels);
    for (size_t c = 0; c < channels; ++c) {
      factor[c] = scale->values<float>()[c] / std::sqrt(variance->values<float>()[c] + epsilon);
      double old = bias ? bias->values<float>()[c] : 0.0;
      new_bias[c] = static_cast<float>((old - mean->values<float>()[c]) * factor[c] + shift->values<float>()[c]);
    }
    std::string weight_name = layer.inputs[1];
    graph.initializers[initializer[weight_name]].tensor = scaled(*weight, axis, factor);
    // The bias gets a name of its own: the old one may be shared.
    std::string bias_name = layer.outputs[0] + "_folded_bias";
    graph.initializers.push_back({bias_name, float_tensor({static_cast<int64_t>(channels)}, std::move(new_bias))});
    initializer[bias_name] = graph.initializers.size() - 1;
    layer.inputs.resize(3);
    layer.inputs[2] = bias_name;
    layer.outputs[0] = norm.outputs[0];
    producer[norm.outputs[0]] = it->second;
    removed[b] = true;
    ++folded;
  }
  if (folded == 0) return 0;

  std::vector<Node> kept;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (!removed[i]) kept.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(kept);
  Readers left(graph);
  std::erase_if(graph.initializers, [&](const Initializer& i) { return left.count[i.name] == 0; });
  std::erase_if(graph.inputs,
                [&](const ValueInfo& v) { return initializer.contains(v.name) && left.count[v.name] == 0; });
  return folded;
}

}  // namespace seqto
