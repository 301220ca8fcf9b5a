// How far each layer's mean output is from the float model's.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/calibration/channel_means.h"
#include "seqto/error.h"
#include "seqto/improve.h"

namespace seqto {

using namespace internal;

namespace {

constexpr std::array<std::pair<BiasCorrection, std::string_view>, 3> kCorrections{
    {{BiasCorrection::kNone, "none"}, {BiasCorrection::kFast, "fast"}, {BiasCorrection::kFull, "full"}}};
constexpr char kApart[] = "seqto_apart_";

// A layer in both models.
struct Matched {
  const Node *original = nullptr, *node = nullptr;
  const Node* input = nullptr;  // the DequantizeLinear before the data; absent: float activations
  size_t rank = 0;              // of the output
};

// Conv, ConvTranspose and Gemm whose weight is stored as codes and whose bias is a constant, or none.
bool can_shift(const Node& original, const GraphView& floats) {
  if (!(has(original, kConv) || is_gemm(original)) || !original.domain.empty()) return false;
  if (!floats.is_initializer(original.inputs[1])) return false;
  const auto bias = bias_input(original);
  if (!bias) return true;
  auto values = floats.initializers.find(original.inputs[*bias]);
  return values != floats.initializers.end() && values->second->type() == DataType::kFloat;
}

std::vector<Matched> match(const Model& float_model, const Model& quantized) {
  const GraphView floats(float_model);
  const Edges edges(quantized.graph);
  std::unordered_map<LayerId, const Node*> originals;
  for (const Node& n : float_model.graph.nodes) originals[n.name] = &n;
  std::vector<Matched> matched;
  for (const Node& node : quantized.graph.nodes) {
    auto it = originals.find(node.name);
    if (it == originals.end() || it->second->op_type != node.op_type || !can_shift(*it->second, floats)) continue;
    if (has_factors(node) || !edges.producer(node.inputs[1])) continue;
    const Node* input = edges.producer(node.inputs[0]);
    if (input && !is_dequantize(*input)) input = nullptr;
    const Tensor& weight = *floats.initializers.at(it->second->inputs[1]);
    matched.push_back({it->second, &node, input, weight.dims().size()});
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
  const Edges edges(quantized.graph);
  auto name = [](const std::string& tensor) { return tensor.empty() ? tensor : kApart + tensor; };
  // What makes a weight or a bias from its stored form: all of it is constant.
  std::unordered_set<const Node*> copied;
  std::function<std::string(const std::string&)> constant_branch = [&](const std::string& tensor) {
    const Node* producer = edges.producer(tensor);
    if (!producer || !copied.insert(producer).second) return name(tensor);
    Node node = *producer;
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
      Node quantize{prefix + "Q", "QuantizeLinear", dequantize.domain, dequantize.inputs, {prefix + "Q"}, {}, {}};
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

// Layer after layer; `means_of` runs the model with such shifts on the samples, told which layers are not corrected
// yet.
template <class MeansOf>
BiasShifts shifts_in_turn(const Model& quantized, const std::vector<Matched>& layers,
                          const std::vector<std::vector<double>>& wanted, const MeansOf& means_of) {
  BiasShifts shifts;
  std::unordered_set<LayerId> open;
  for (const Matched& layer : layers) open.insert(layer.node->name);
  for (const auto& group : by_depth(quantized, layers)) {
    std::vector<ChannelTensor> tensors;
    for (size_t i : group) tensors.push_back({layers[i].node->outputs[0], layers[i].rank});
    auto found = means_of(shifts, open, tensors);
    for (size_t k = 0; k < group.size(); ++k) {
      const LayerId& layer = layers[group[k]].node->name;
      shifts[layer] = difference(wanted[group[k]], found[k]);
      open.erase(layer);
    }
  }
  return shifts;
}

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

BiasShifts bias_shifts(const Remade& remade, BiasCorrection correction, const SampleRun& on) {
  const auto& [data, samples, runner, env] = on;
  if (correction == BiasCorrection::kNone || samples.empty()) return {};
  const Model& float_model = remade.quantizer.model();
  const Model quantized = remade.with({});
  std::vector<Matched> matched = match(float_model, quantized);
  if (matched.empty()) return {};
  std::vector<ChannelTensor> outputs;
  for (const Matched& m : matched) outputs.push_back({m.original->outputs[0], m.rank});
  if (correction == BiasCorrection::kFast) {
    for (const Matched& m : matched) outputs.push_back({kApart + m.node->outputs[0], m.rank});
    auto means = channel_means(layers_apart(float_model, quantized, matched), outputs, on);
    BiasShifts shifts;
    for (size_t i = 0; i < matched.size(); ++i)
      shifts[matched[i].node->name] = difference(means[i], means[matched.size() + i]);
    return shifts;
  }
  Frontier frontier(runner, samples.size());
  return shifts_in_turn(
      quantized, matched, channel_means(float_model, outputs, on),
      [&](const BiasShifts& shifts, const std::unordered_set<LayerId>& open, std::span<const ChannelTensor> tensors) {
        return channel_means(frontier, remade.with({.shifts = shifts}), open, tensors, on);
      });
}

}  // namespace seqto
