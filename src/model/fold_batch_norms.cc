#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>

#include "model/graph_view.h"
#include "model/op_traits.h"

namespace seqto {
namespace {

using namespace internal;

// What a node makes of each channel: factor * x + shift; no factors: all 1.
struct PerChannel {
  std::vector<double> factor, shift;
};

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph), edges_(graph), folded_into_(graph.nodes.size()) {
    std::iota(folded_into_.begin(), folded_into_.end(), size_t{0});
    for (size_t i = 0; i < graph.initializers.size(); ++i) place_[graph.initializers[i].name] = i;
  }

  int fold() {
    std::vector<bool> removed(graph_.nodes.size());
    int folded = 0;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!fold(n)) continue;
      removed[n] = true;
      ++folded;
    }
    if (folded == 0) return 0;
    std::vector<Node> kept;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (!removed[i]) kept.push_back(std::move(graph_.nodes[i]));
    graph_.nodes = std::move(kept);
    const Edges left(graph_);
    std::erase_if(graph_.initializers, [&](const Initializer& i) { return left.uses(i.name) == 0; });
    std::erase_if(graph_.inputs, [&](const ValueInfo& v) { return place_.contains(v.name) && left.uses(v.name) == 0; });
    return folded;
  }

 private:
  const Tensor* constant(const std::string& name) const {
    auto it = place_.find(name);
    if (it == place_.end()) return nullptr;
    const Tensor& t = graph_.initializers[it->second].tensor;
    return t.type() == DataType::kFloat ? &t : nullptr;
  }

  bool fold(size_t n) {
    const Node& node = graph_.nodes[n];
    const std::optional<size_t> input = mapped_input(node);
    const Node* producer = input ? edges_.producer(node.inputs[*input]) : nullptr;
    if (!producer || edges_.uses(node.inputs[*input]) != 1) return false;
    Node& layer = graph_.nodes[folded_into_[edges_.place(*producer)]];
    if (!layer.domain.empty() || layer.inputs.size() < 2 || has_factors(layer)) return false;
    const Tensor* weight = constant(layer.inputs[1]);
    const size_t rank = weight ? weight->dims().size() : 0, axis = biased_axis(layer, rank).value_or(rank);
    if (axis == rank) return false;
    const auto channels = static_cast<size_t>(weight->dims()[axis]);
    const bool has_bias = bias_input(layer).has_value();
    const Tensor* bias = has_bias ? constant(layer.inputs[2]) : nullptr;
    if (has_bias && (!bias || !holds_channels(*bias, static_cast<int64_t>(channels)))) return false;
    const std::optional<PerChannel> map = per_channel(node, *input, rank, channels);
    // A shared weight would be scaled for its other layers too.
    if (!map || (!map->factor.empty() && edges_.uses(layer.inputs[1]) != 1)) return false;

    if (has_bias || !map->shift.empty()) set_bias(layer, bias, *map, channels);
    if (!map->factor.empty()) {
      Tensor& stored = graph_.initializers[place_.at(layer.inputs[1])].tensor;
      stored = scaled(stored, axis, map->factor);
    }
    layer.outputs[0] = node.outputs[0];
    folded_into_[n] = folded_into_[edges_.place(*producer)];
    return true;
  }

  // Of nodes that may be folded, the input that is no constant.
  std::optional<size_t> mapped_input(const Node& node) const {
    if (!node.domain.empty() || node.outputs.empty()) return {};
    if (is_batch_normalization(node)) return node.inputs.size() < 5 ? std::nullopt : std::optional<size_t>(0);
    if ((!is_add(node) && !is_mul(node)) || node.inputs.size() != 2 || !node.attributes.empty()) return {};
    const bool first = constant(node.inputs[0]), second = constant(node.inputs[1]);
    return first == second ? std::nullopt : std::optional<size_t>(first ? 1 : 0);
  }

  std::optional<PerChannel> per_channel(const Node& node, size_t input, size_t rank, size_t channels) const {
    if (is_batch_normalization(node)) return of_batch_normalization(node, channels);
    const Tensor& operand = *constant(node.inputs[1 - input]);
    std::optional<std::vector<double>> values = broadcast(operand, rank, channels);
    if (!values) return {};
    PerChannel map;
    (is_mul(node) ? map.factor : map.shift) = std::move(*values);
    return map;
  }

  std::optional<PerChannel> of_batch_normalization(const Node& norm, size_t channels) const {
    if (norm.int_attribute("training_mode", 0) != 0) return {};
    for (size_t o = 1; o < norm.outputs.size(); ++o)
      if (edges_.uses(norm.outputs[o]) > 0) return {};
    std::array<std::span<const float>, 4> of;  // scale, shift, mean, variance
    for (size_t i = 0; i < of.size(); ++i) {
      const Tensor* t = constant(norm.inputs[i + 1]);
      if (!t || t->element_count() != static_cast<int64_t>(channels)) return {};
      of[i] = t->values<float>();
    }
    const double epsilon = norm.float_attribute("epsilon", 1e-5f);
    PerChannel map;
    for (size_t c = 0; c < channels; ++c) {
      map.factor.push_back(of[0][c] / std::sqrt(of[3][c] + epsilon));
      map.shift.push_back(of[1][c] - of[2][c] * map.factor.back());
    }
    return map;
  }

  // A value for each channel, which is axis 1 of what the layer writes; nothing where it differs along another axis or
  // has more of them.
  static std::optional<std::vector<double>> broadcast(const Tensor& t, size_t rank, size_t channels) {
    const std::vector<int64_t>& dims = t.dims();
    if (dims.size() > rank) return {};
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] != 1 && (rank - dims.size() + d != 1 || dims[d] != static_cast<int64_t>(channels))) return {};
    const auto values = t.values<float>();
    if (values.size() == 1) return std::vector<double>(channels, values[0]);
    return std::vector<double>(values.begin(), values.end());
  }

  // Under a name of its own: the old one may be shared.
  void set_bias(Node& layer, const Tensor* bias, const PerChannel& map, size_t channels) {
    std::vector<float> values(channels);
    for (size_t c = 0; c < channels; ++c) {
      const double old = bias ? bias->values<float>()[c] : 0;
      values[c] =
          static_cast<float>(old * (map.factor.empty() ? 1 : map.factor[c]) + (map.shift.empty() ? 0 : map.shift[c]));
    }
    const std::string name = layer.outputs[0] + "_folded_bias";
    graph_.initializers.push_back({name, float_tensor({static_cast<int64_t>(channels)}, std::move(values))});
    place_[name] = graph_.initializers.size() - 1;
    layer.inputs.resize(3);
    layer.inputs[2] = name;
  }

  static Tensor scaled(const Tensor& weight, size_t axis, const std::vector<double>& factor) {
    auto in = weight.values<float>();
    std::vector<float> out(in.size());
    size_t inner = 1;
    for (size_t d = axis + 1; d < weight.dims().size(); ++d) inner *= static_cast<size_t>(weight.dims()[d]);
    for (size_t i = 0; i < in.size(); ++i) out[i] = static_cast<float>(in[i] * factor[i / inner % factor.size()]);
    return float_tensor(weight.dims(), std::move(out));
  }

  Graph& graph_;
  const Edges edges_;                              // as they were before anything was folded
  std::vector<size_t> folded_into_;                // the place of the layer that a node became part of
  std::unordered_map<std::string, size_t> place_;  // of initializers
};

}  // namespace

int fold_batch_norms(Model& model) { return Folder(model.graph).fold(); }

}  // namespace seqto
