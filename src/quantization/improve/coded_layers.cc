#include "quantization/improve/coded_layers.h"

#include <algorithm>
#include <unordered_map>

#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/plan/qoperator_forms.h"

namespace seqto::internal {

std::optional<WeightLayout> weight_layout(const Node& node, const std::vector<int64_t>& dims) {
  if (has(node, kMatrixProduct)) {
    if (dims.size() != 2 || node.int_attribute("transA", 0) != 0 || has_factors(node)) return {};
    const size_t outputs = *output_axis(node, 2);
    return WeightLayout{1, dims[outputs], dims[1 - outputs], outputs == 1};
  }
  std::string pad = node.string_attribute("auto_pad", "NOTSET");
  int64_t groups = node.int_attribute("group", 1);
  if (dims.size() < 3 || dims.size() > 4 || (pad != "NOTSET" && pad != "VALID") || groups < 1 || dims[0] % groups)
    return {};
  int64_t inputs = 1;
  for (size_t a = 1; a < dims.size(); ++a) inputs *= dims[a];
  return WeightLayout{groups, dims[0], inputs, false};
}

namespace {

// `node`: as the encoding has it; `written`: the same in the file.
std::optional<CodedLayer> coded_layer(const Node& node, const Node& written, EncodedLayers& layers) {
  auto codes = layers.codes_of(node);
  if (!codes) return {};
  CodedWeight& weight = codes->weight;
  const auto layout = is_nbits(written) ? std::optional(WeightLayout{1, weight.dims[0], weight.dims[1], false})
                                        : weight_layout(qoperator_form(node) ? written : node, weight.dims);
  if (!layout) return {};
  const auto bias = layers.bias_of(node);
  return CodedLayer{.node = &written,
                    .input = written.inputs[0],
                    .weight = std::move(weight),
                    .layout = *layout,
                    .has_bias = bias && bias->holds(layout->outputs),
                    .is_stored = codes->whole != nullptr};
}

// Gemm and MatMul may have become MatMulNBits.
std::optional<FloatLayer> float_layer(const CodedLayer& layer, const Node& original, const GraphView& floats) {
  const Node& node = *layer.node;
  if (node.op_type != original.op_type && !(has(original, kMatrixProduct) && is_nbits(node))) return {};
  const auto weight = floats.initializers.find(original.inputs[1]);
  if (weight == floats.initializers.end() || weight->second->type() != DataType::kFloat) return {};
  const auto layout = weight_layout(original, weight->second->dims());
  if (!layout || layout->outputs != layer.layout.outputs || layout->inputs != layer.layout.inputs) return {};
  return FloatLayer{&original, weight->second, *layout};
}

}  // namespace

std::vector<CodedLayer> coded_layers(const Model& quantized, EncodedLayers& layers) {
  std::unordered_map<LayerId, const Node*> encoded, originals;
  for (const Node& n : layers.model().graph.nodes) originals[n.name] = &n;
  for (const Node& n : layers.nodes()) encoded[layer_of(n)] = &n;
  const GraphView view(quantized);
  std::vector<CodedLayer> result;
  std::unordered_map<std::string, int> depths;
  for (const Node& n : quantized.graph.nodes) {
    int depth = 0;
    for_each_read(n, [&](const std::string& name) {
      if (auto it = depths.find(name); it != depths.end()) depth = std::max(depth, it->second);
    });
    const auto node = encoded.find(n.name);
    const bool computed = !n.inputs.empty() && (view.edges.producer(n.inputs[0]) || view.inputs.contains(n.inputs[0]));
    if (auto layer = node != encoded.end() && computed ? coded_layer(*node->second, n, layers) : std::nullopt) {
      layer->depth = depth++;
      if (auto it = originals.find(n.name); it != originals.end())
        layer->original = float_layer(*layer, *it->second, layers.floats());
      result.push_back(std::move(*layer));
    }
    for (const auto& name : n.outputs) depths[name] = depth;
  }
  return result;
}

std::vector<FloatLayer> layers_to_learn(const Model& model) {
  const GraphView view(model);
  std::vector<FloatLayer> result;
  for (const Node& node : model.graph.nodes) {
    const Tensor* weight = has(node, kProduct) && node.inputs.size() > 1 ? view.constant(node.inputs[1]) : nullptr;
    const auto layout = weight ? weight_layout(node, weight->dims()) : std::nullopt;
    if (layout && layout->inputs <= kWidestUnasked) result.push_back({&node, weight, *layout});
  }
  return result;
}

int64_t wanted_rows(const WeightLayout& layout, const RoundingOptions& options) {
  return std::min(options.rows_per_weight * layout.inputs, options.max_rows);
}

}  // namespace seqto::internal
