#include <cmath>
#include <numeric>
#include <unordered_map>

#include "model/graph_view.h"
#include "model/op_traits.h"

namespace seqto {
namespace {

using namespace internal;

Tensor scaled(const Tensor& weight, size_t axis, const std::vector<double>& factor) {
  auto in = weight.values<float>();
  std::vector<float> out(in.size());
  size_t inner = 1;
  for (size_t d = axis + 1; d < weight.dims().size(); ++d) inner *= static_cast<size_t>(weight.dims()[d]);
  for (size_t i = 0; i < in.size(); ++i) out[i] = static_cast<float>(in[i] * factor[i / inner % factor.size()]);
  return float_tensor(weight.dims(), std::move(out));
}

}  // namespace

int fold_batch_norms(Model& model) {
  Graph& graph = model.graph;
  const Edges edges(graph);  // as they are before anything is folded
  std::vector<size_t> folded_into(graph.nodes.size());
  std::iota(folded_into.begin(), folded_into.end(), size_t{0});
  std::unordered_map<std::string, size_t> initializer;
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
    if (!is_batch_normalization(norm) || !norm.domain.empty() || norm.inputs.size() < 5) continue;
    if (norm.int_attribute("training_mode", 0) != 0) continue;
    bool other_outputs = false;
    for (size_t o = 1; o < norm.outputs.size(); ++o) other_outputs |= edges.uses(norm.outputs[o]) > 0;
    const Node* producer = edges.producer(norm.inputs[0]);
    if (other_outputs || !producer || edges.uses(norm.inputs[0]) != 1) continue;
    const size_t place = folded_into[edges.place(*producer)];
    Node& layer = graph.nodes[place];
    if (!layer.domain.empty() || layer.inputs.size() < 2 || has_factors(layer) || removed[place]) continue;
    const Tensor* weight = constant(layer.inputs[1]);
    const size_t rank = weight ? weight->dims().size() : 0, axis = biased_axis(layer, rank).value_or(rank);
    const bool has_bias = bias_input(layer).has_value();
    const Tensor* bias = has_bias ? constant(layer.inputs[2]) : nullptr;
    const Tensor *scale = constant(norm.inputs[1]), *shift = constant(norm.inputs[2]), *mean = constant(norm.inputs[3]),
                 *variance = constant(norm.inputs[4]);
    // A shared weight would be scaled for its other layers too.
    if (axis == rank || (has_bias && !bias) || !scale || !shift || !mean || !variance ||
        edges.uses(layer.inputs[1]) != 1)
      continue;
    size_t channels = static_cast<size_t>(scale->element_count());
    auto fits = [&](const Tensor* t) { return !t || t->element_count() == static_cast<int64_t>(channels); };
    if (static_cast<int64_t>(channels) != weight->dims()[axis] || !fits(bias) || !fits(shift) || !fits(mean) ||
        !fits(variance))
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
    folded_into[b] = place;
    removed[b] = true;
    ++folded;
  }
  if (folded == 0) return 0;

  std::vector<Node> kept;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (!removed[i]) kept.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(kept);
  const Edges left(graph);
  std::erase_if(graph.initializers, [&](const Initializer& i) { return left.uses(i.name) == 0; });
  std::erase_if(graph.inputs,
                [&](const ValueInfo& v) { return initializer.contains(v.name) && left.uses(v.name) == 0; });
  return folded;
}

}  // namespace seqto
