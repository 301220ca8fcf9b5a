#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "model/sort_nodes.h"
#include "quantization/arithmetic.h"
#include "quantization/channel_means.h"
#include "quantization/marks.h"
#include "seqto/error.h"
#include "seqto/improve.h"

namespace seqto {

using namespace internal;

namespace {

constexpr std::array<std::pair<BiasCorrection, std::string_view>, 3> kCorrections{
    {{BiasCorrection::kNone, "none"}, {BiasCorrection::kFast, "fast"}, {BiasCorrection::kFull, "full"}}};
constexpr char kApart[] = "seqto_apart_";

// A layer whose bias can take a shift, and where its numbers are.
struct Biased {
  size_t node = 0;               // of the quantized model
  const Node* input = nullptr;   // the DequantizeLinear before the data; absent: float activations
  const Node* weight = nullptr;  // the DequantizeLinear after the weight; absent: stored in another way
  const Node* bias = nullptr;    // the DequantizeLinear after the bias; absent: a float bias or none
};

// The quantized model seen from its layers.
class Layers {
 public:
  explicit Layers(const Model& model) : index_(model) {
    for (const Node& n : model.graph.nodes)
      for (const auto& output : n.outputs) producers_[output] = &n;
    for (size_t i = 0; i < model.graph.nodes.size(); ++i)
      if (auto layer = biased(model.graph.nodes[i], i)) layers_.push_back(*layer);
  }

  const std::vector<Biased>& all() const { return layers_; }
  const GraphIndex& index() const { return index_; }
  const Tensor* constant(const std::string& name) const {
    auto it = index_.initializers.find(name);
    return it == index_.initializers.end() ? nullptr : it->second;
  }

 private:
  const Node* dequantizer(const Node& node, size_t input) const {
    if (node.inputs.size() <= input) return nullptr;
    auto it = producers_.find(node.inputs[input]);
    return it != producers_.end() && it->second->op_type == "DequantizeLinear" ? it->second : nullptr;
  }

  std::optional<Biased> biased(const Node& node, size_t i) const {
    bool conv = node.op_type == "Conv" || node.op_type == "ConvTranspose";
    if ((!conv && node.op_type != "Gemm") || !node.domain.empty()) return {};
    if (!conv && (node.float_attribute("alpha", 1) != 1 || node.float_attribute("beta", 1) != 1)) return {};
    Biased b;
    b.node = i;
    b.input = dequantizer(node, 0);
    b.weight = dequantizer(node, 1);
    b.bias = dequantizer(node, 2);
    if (node.inputs.size() < 2 || !producers_.contains(node.inputs[1])) return {};  // a float weight
    if (!shiftable(node, b)) return {};
    return b;
  }

  // An activation that is added as a bias is nothing to shift.
  bool shiftable(const Node& node, const Biased& b) const {
    if (node.inputs.size() < 3 || node.inputs[2].empty()) return true;
    const Tensor* bias = constant(b.bias ? b.bias->inputs[0] : node.inputs[2]);
    if (!bias) return false;
    if (!b.bias) return bias->type() == DataType::kFloat;
    const Tensor* scale = constant(b.bias->inputs[1]);
    return bias->type() == DataType::kInt32 && scale &&
           (scale->element_count() == 1 || scale->element_count() == bias->element_count());
  }

  GraphIndex index_;
  std::unordered_map<std::string, const Node*> producers_;
  std::vector<Biased> layers_;
};

// --- measuring ---------------------------------------------------------------------------------

// A layer in both models.
struct Matched {
  const Node *original = nullptr, *node = nullptr;
  const Node* input = nullptr;  // as Biased::input
  size_t rank = 0;              // of the output
};

std::vector<Matched> match(const Model& float_model, const Model& quantized) {
  GraphIndex floats(float_model);
  std::unordered_map<LayerId, const Node*> originals;
  for (const Node& n : float_model.graph.nodes) originals[n.name] = &n;
  std::vector<Matched> matched;
  Layers layers(quantized);
  for (const Biased& layer : layers.all()) {
    const Node& node = quantized.graph.nodes[layer.node];
    auto it = originals.find(node.name);
    if (it == originals.end() || it->second->op_type != node.op_type) continue;
    const Node& original = *it->second;
    auto weight = floats.initializers.find(original.inputs[1]);
    bool constant_bias =
        original.inputs.size() < 3 || original.inputs[2].empty() || floats.is_initializer(original.inputs[2]);
    if (weight == floats.initializers.end() || !constant_bias) continue;
    matched.push_back({&original, &node, layer.input, weight->second->dims().size()});
  }
  return matched;
}

// Every layer of the quantized model, its input taken from the float model: float graph, and beside it each layer with
// its own Q/DQ.
Model layers_apart(const Model& float_model, const Model& quantized, const std::vector<Matched>& layers) {
  Model result = float_model;
  result.opsets = quantized.opsets;
  result.ir_version = quantized.ir_version;
  Graph& graph = result.graph;
  std::unordered_map<std::string, const Node*> producers;
  for (const Node& n : quantized.graph.nodes)
    for (const auto& output : n.outputs) producers[output] = &n;
  auto name = [](const std::string& tensor) { return tensor.empty() ? tensor : kApart + tensor; };
  // What makes a weight or a bias from its stored form: all of it is constant.
  std::unordered_set<const Node*> copied;
  std::function<std::string(const std::string&)> constant_branch = [&](const std::string& tensor) {
    auto it = producers.find(tensor);
    if (it == producers.end() || !copied.insert(it->second).second) return name(tensor);
    Node node = *it->second;
    for (auto& input : node.inputs) input = constant_branch(input);
    for (auto& output : node.outputs) output = name(output);
    node.name = kApart + node.name;
    graph.nodes.push_back(std::move(node));
    return name(tensor);
  };
  for (const Initializer& i : quantized.graph.initializers) graph.initializers.push_back({name(i.name), i.tensor});
  for (const Matched& layer : layers) {
    Node node = *layer.node;
    std::string prefix = kApart + node.name + "_";
    for (size_t i = 1; i < node.inputs.size(); ++i) node.inputs[i] = constant_branch(node.inputs[i]);
    node.inputs[0] = layer.original->inputs[0];
    if (layer.input) {
      Node dequantize = *layer.input;
      Node quantize{prefix + "Q", "QuantizeLinear", "", dequantize.inputs, {prefix + "Q"}, {}, {}};
      for (size_t i = 1; i < quantize.inputs.size(); ++i) quantize.inputs[i] = name(quantize.inputs[i]);
      dequantize.inputs = quantize.inputs;
      quantize.inputs[0] = node.inputs[0];
      dequantize.inputs[0] = quantize.outputs[0];
      node.inputs[0] = dequantize.outputs[0] = dequantize.name = prefix + "DQ";
      graph.nodes.push_back(std::move(quantize));
      graph.nodes.push_back(std::move(dequantize));
    }
    node.outputs[0] = name(node.outputs[0]);
    node.name = prefix + "layer";
    graph.nodes.push_back(std::move(node));
  }
  return result;
}

std::vector<float> difference(const std::vector<double>& wanted, const std::vector<double>& found) {
  std::vector<float> result(wanted.size());
  for (size_t c = 0; c < wanted.size(); ++c) {
    double value = found.size() == wanted.size() ? wanted[c] - found[c] : 0;
    result[c] = std::isfinite(value) ? static_cast<float>(value) : 0.0f;
  }
  return result;
}

// The layers, as indices, by how many of them lie before; those of one depth do not see each other.
std::vector<std::vector<size_t>> by_depth(const Model& quantized, const std::vector<Matched>& layers) {
  std::unordered_map<const Node*, size_t> at;
  for (size_t i = 0; i < layers.size(); ++i) at[layers[i].node] = i;
  std::unordered_map<std::string, size_t> depths;
  std::vector<std::vector<size_t>> groups;
  for (const Node& node : quantized.graph.nodes) {
    size_t depth = 0;
    for_each_read(node, [&](const std::string& input) {
      if (auto it = depths.find(input); it != depths.end()) depth = std::max(depth, it->second);
    });
    if (auto it = at.find(&node); it != at.end()) {
      groups.resize(std::max(groups.size(), depth + 1));
      groups[depth++].push_back(it->second);
    }
    for (const auto& output : node.outputs) depths[output] = depth;
  }
  return groups;
}

// Layer after layer; `means_of` runs a model on the samples.
template <class MeansOf>
BiasShifts shifts_in_turn(const Model& quantized, const std::vector<Matched>& layers,
                          const std::vector<std::vector<double>>& wanted, const MeansOf& means_of) {
  BiasShifts shifts;
  for (const auto& group : by_depth(quantized, layers)) {
    std::vector<ChannelTensor> tensors;
    for (size_t i : group) tensors.push_back({layers[i].node->outputs[0], layers[i].rank});
    auto found = means_of(shift_biases(quantized, shifts), tensors);
    for (size_t k = 0; k < group.size(); ++k)
      shifts[layers[group[k]].node->name] = difference(wanted[group[k]], found[k]);
  }
  return shifts;
}

// --- shifting ----------------------------------------------------------------------------------

int32_t saturated(double value) {
  constexpr double kLimit = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::clamp(std::nearbyint(value), -kLimit, kLimit));
}

class Shifter {
 public:
  explicit Shifter(const Model& quantized) : result_(quantized), layers_(quantized) {
    for (const Node& n : quantized.graph.nodes) for_each_read(n, [&](const std::string& name) { ++readers_[name]; });
  }

  Model run(const BiasShifts& shifts) {
    for (const Biased& layer : layers_.all()) {
      auto it = shifts.find(result_.graph.nodes[layer.node].name);
      if (it != shifts.end()) shift(layer, it->second);
    }
    for (Node& n : new_nodes_) result_.graph.nodes.push_back(std::move(n));
    for (Initializer& i : result_.graph.initializers)
      if (auto it = changed_.find(i.name); it != changed_.end()) i.tensor = std::move(it->second);
    drop_unused_initializers(result_.graph);
    sort_nodes(result_.graph);
    return std::move(result_);
  }

 private:
  void shift(const Biased& layer, const std::vector<float>& by) {
    Node& node = result_.graph.nodes[layer.node];
    if (layer.bias) return shift_codes(layer, node, by);
    if (node.inputs.size() > 2 && !node.inputs[2].empty()) return shift_floats(node, by);
    if (layer.input && layer.weight) add_codes(layer, node, by);
    else if (!layer.input) add_floats(node, by);
  }

  void shift_codes(const Biased& layer, Node& node, const std::vector<float>& by) {
    const Tensor& codes = *layers_.constant(layer.bias->inputs[0]);
    if (codes.element_count() != static_cast<int64_t>(by.size())) return;
    std::vector<float> scale = to_floats(*layers_.constant(layer.bias->inputs[1]));
    auto old = codes.values<int32_t>();
    std::vector<int32_t> values(by.size());
    for (size_t c = 0; c < by.size(); ++c)
      values[c] = saturated(old[c] + static_cast<double>(by[c]) / scale[scale.size() == 1 ? 0 : c]);
    Tensor tensor = Tensor::from(DataType::kInt32, codes.dims(), std::move(values));
    if (readers_[layer.bias->outputs[0]] == 1 && readers_[layer.bias->inputs[0]] == 1) {
      changed_[layer.bias->inputs[0]] = std::move(tensor);
      return;
    }
    Node dequantize = *layer.bias;
    dequantize.inputs[0] = own_name(node, "_bias_quantized");
    dequantize.name = own_name(node, "_bias_DequantizeLinear");
    node.inputs[2] = dequantize.outputs[0] = own_name(node, "_bias");
    result_.graph.initializers.push_back({dequantize.inputs[0], std::move(tensor)});
    new_nodes_.push_back(std::move(dequantize));
  }

  void shift_floats(Node& node, const std::vector<float>& by) {
    const Tensor& old = *layers_.constant(node.inputs[2]);
    if (old.element_count() != static_cast<int64_t>(by.size())) return;  // one value for every channel
    std::vector<float> values = to_floats(old);
    for (size_t c = 0; c < by.size(); ++c) values[c] += by[c];
    Tensor tensor = float_tensor(old.dims(), std::move(values));
    if (readers_[node.inputs[2]] == 1) {
      changed_[node.inputs[2]] = std::move(tensor);
    } else {
      node.inputs[2] = own_name(node, "_bias");
      result_.graph.initializers.push_back({node.inputs[2], std::move(tensor)});
    }
  }

  // A static layer without bias: int32 in steps of input times weight, as the kernels expect it.
  void add_codes(const Biased& layer, Node& node, const std::vector<float>& by) {
    const Tensor* input = layers_.constant(layer.input->inputs[1]);
    const Tensor* scale = layers_.constant(layer.weight->inputs[1]);
    if (!scale) return;
    std::vector<float> weight = to_floats(*scale);
    if (!input || input->type() != DataType::kFloat || (weight.size() != 1 && weight.size() != by.size())) return;
    QuantizedBias bias = quantize_bias(by, to_floats(*input)[0], weight);
    int64_t channels = static_cast<int64_t>(by.size()), scales = static_cast<int64_t>(bias.scale.size());
    std::vector<int64_t> scale_dims = scales > 1 ? std::vector<int64_t>{scales} : std::vector<int64_t>{};
    std::string codes = own_name(node, "_bias_quantized");
    auto& initializers = result_.graph.initializers;
    initializers.push_back({codes, Tensor::from(DataType::kInt32, {channels}, std::move(bias.values))});
    initializers.push_back({codes + "_scale", float_tensor(scale_dims, std::move(bias.scale))});
    Node dequantize{own_name(node, "_bias_DequantizeLinear"),
                    "DequantizeLinear",
                    "",
                    {codes, codes + "_scale"},
                    {own_name(node, "_bias")},
                    {},
                    {}};
    if (scales > 1) dequantize.set_attribute({"axis", int64_t{0}});
    node.inputs.resize(3);
    node.inputs[2] = dequantize.outputs[0];
    new_nodes_.push_back(std::move(dequantize));
  }

  void add_floats(Node& node, const std::vector<float>& by) {
    node.inputs.resize(3);
    node.inputs[2] = own_name(node, "_bias");
    result_.graph.initializers.push_back({node.inputs[2], float_tensor({static_cast<int64_t>(by.size())}, by)});
  }

  static std::string own_name(const Node& node, const char* suffix) { return node.name + "_corrected" + suffix; }

  Model result_;
  Layers layers_;
  std::unordered_map<std::string, int> readers_;
  std::unordered_map<std::string, Tensor> changed_;
  std::vector<Node> new_nodes_;
};

}  // namespace

std::string_view to_string(BiasCorrection correction) {
  for (auto [c, name] : kCorrections)
    if (c == correction) return name;
  return "?";
}

BiasCorrection parse_bias_correction(std::string_view name) {
  for (auto [c, n] : kCorrections)
    if (n == name) return c;
  throw Error(Code::kUsage, fmt::format("[quantize] bias correction '{}' found; one of none fast full expected", name));
}

BiasShifts bias_shifts(const Model& float_model, const Model& quantized, BiasCorrection correction, const Dataset& data,
                       std::span<const int64_t> samples, Runner& runner, const Env& env) {
  if (correction == BiasCorrection::kNone || samples.empty()) return {};
  std::vector<Matched> matched = match(float_model, quantized);
  if (matched.empty()) return {};
  std::vector<ChannelTensor> outputs;
  for (const Matched& m : matched) outputs.push_back({m.original->outputs[0], m.rank});
  if (correction == BiasCorrection::kFast) {
    for (const Matched& m : matched) outputs.push_back({kApart + m.node->outputs[0], m.rank});
    auto means = channel_means(layers_apart(float_model, quantized, matched), outputs, data, samples, runner, env);
    BiasShifts shifts;
    for (size_t i = 0; i < matched.size(); ++i)
      shifts[matched[i].node->name] = difference(means[i], means[matched.size() + i]);
    return shifts;
  }
  return shifts_in_turn(quantized, matched, channel_means(float_model, outputs, data, samples, runner, env),
                        [&](const Model& model, std::span<const ChannelTensor> tensors) {
                          return channel_means(model, tensors, data, samples, runner, env);
                        });
}

Model shift_biases(const Model& quantized, const BiasShifts& shifts) { return Shifter(quantized).run(shifts); }

}  // namespace seqto
