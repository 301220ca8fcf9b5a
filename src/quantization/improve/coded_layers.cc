#include "quantization/improve/coded_layers.h"

#include <algorithm>
#include <unordered_map>

#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/plan/qoperator_forms.h"

namespace seqto::internal {
namespace {

class Finder {
 public:
  explicit Finder(const Model& model) : model_(model), weights_(model) {}

  std::vector<CodedLayer> run() {
    std::vector<CodedLayer> layers;
    std::unordered_map<std::string, int> depths;
    for (const Node& n : model_.graph.nodes) {
      int depth = 0;
      for_each_read(n, [&](const std::string& name) {
        if (auto it = depths.find(name); it != depths.end()) depth = std::max(depth, it->second);
      });
      if (auto layer = read(n)) {
        layer->depth = depth++;
        layers.push_back(std::move(*layer));
      }
      for (const auto& name : n.outputs) depths[name] = depth;
    }
    return layers;
  }

 private:
  std::optional<CodedLayer> read(const Node& node) const {
    if (auto form = qoperator_form(node)) return read_operator(node, *form);
    if (is_nbits(node)) return read_nbits(node);
    const bool known = is_conv(node) || has(node, kMatrixProduct);
    if (!known || !node.domain.empty() || node.name.empty() || !is_computed(node.inputs[0])) return {};
    auto weight = weights_.behind(node.inputs[1]);
    auto layout = weight ? weight_layout(node, weight->dims) : std::nullopt;
    if (!layout) return {};
    CodedLayer layer{&node, node.name, 0, node.inputs[0], std::move(*weight), *layout, {}, {}};
    if (const auto bias = bias_input(node)) read_bias(node.inputs[*bias], layer);
    return layer;
  }

  bool is_computed(const std::string& name) const {
    return weights_.view().edges.producer(name) || weights_.view().inputs.contains(name);
  }

  // Its weight was that of a MatMul or a Gemm, and the sum behind it the Gemm's bias.
  std::optional<CodedLayer> read_nbits(const Node& node) const {
    if (node.name.empty() || !is_computed(node.inputs[0])) return {};
    auto weight = weights_.of_nbits(node);
    if (!weight) return {};
    WeightLayout layout{1, weight->dims[0], weight->dims[1], false};
    CodedLayer layer{&node, node.name, 0, node.inputs[0], std::move(*weight), layout, {}, {}};
    const Node* sum = weights_.view().edges.only_reader(node.outputs[0]);
    if (sum && is_add(*sum) && sum->inputs[0] == node.outputs[0] && sum->name.starts_with(node.name + "_bias"))
      read_bias(sum->inputs[1], layer);
    return layer;
  }

  std::optional<CodedLayer> read_operator(const Node& node, const QoperatorForm& form) const {
    const std::string &codes_name = node.inputs[form.kWeight], &weight_scale = node.inputs[form.kWeightScale];
    const Tensor* input_scale = weights_.initializer(node.inputs[form.kInputScale]);
    const Tensor* zero = weights_.initializer(node.inputs[form.kWeightZeroPoint]);
    if (node.name.empty() || !weights_.own_initializer(codes_name) || !weights_.initializer(weight_scale) ||
        !input_scale || !zero)
      return {};
    const Tensor &codes = *weights_.initializer(codes_name), &scale = *weights_.initializer(weight_scale);
    Node as_layer{node.name, std::string(form.layer_type), "", {}, {}, node.attributes, {}};
    auto layout = weight_layout(as_layer, codes.dims());
    if (!layout || scale.type() != DataType::kFloat || input_scale->type() != DataType::kFloat ||
        input_scale->element_count() != 1)
      return {};
    auto weight = operator_weight(codes_name, codes, scale, *zero, *layout);
    if (!weight) return {};
    CodedLayer layer{&node, original_name(node.name), 0, node.inputs[form.kInput], std::move(*weight), *layout, {}, {}};
    layer.is_operator = true;
    if (form.bias == 0 || node.inputs.size() <= form.bias) return layer;
    const std::string& bias = node.inputs[form.bias];
    if (!weights_.own_initializer(bias) || weights_.initializer(bias)->element_count() != layout->outputs) return layer;
    layer.bias = bias;
    layer.bias_scale = quantize_bias({}, to_floats(*input_scale)[0], layer.weight.scale).scale;
    return layer;
  }

  // One scale, or one an output.
  static std::optional<CodedWeight> operator_weight(const std::string& name, const Tensor& codes, const Tensor& scale,
                                                    const Tensor& zero, const WeightLayout& layout) {
    CodedWeight w;
    w.codes = name;
    w.dims = w.code_dims = codes.dims();
    w.scale = to_floats(scale);
    QuantLimits limits = code_limits(codes);
    w.lowest = limits.lowest, w.highest = limits.highest;
    for (int64_t i = 0; i < zero.element_count(); ++i) w.zero_point.push_back(static_cast<int32_t>(element(zero, i)));
    w.scale_dims.assign(w.dims.size(), 1);
    w.scale_dims[layout.inputs_first ? w.dims.size() - 1 : 0] = std::ssize(w.scale);
    bool one_each = std::ssize(w.scale) == layout.outputs || w.scale.size() == 1;
    if (!one_each || (w.zero_point.size() != 1 && w.zero_point.size() != w.scale.size())) return {};
    return w;
  }

  void read_bias(const std::string& name, CodedLayer& layer) const {
    auto fits = [&](const Tensor* t) {
      return t && t->element_count() == layer.layout.outputs && t->dims().size() == 1;
    };
    const Tensor* plain = weights_.initializer(name);
    if (fits(plain) && plain->type() == DataType::kFloat && weights_.read_once(name)) {
      layer.bias = name;
    } else if (const Node* source = weights_.own_dequantizer(name);
               source && fits(weights_.initializer(source->inputs[0]))) {
      bool int32 = weights_.initializer(source->inputs[0])->type() == DataType::kInt32;
      auto scale = to_floats(*weights_.initializer(source->inputs[1]));
      if (!int32 || (scale.size() != 1 && std::ssize(scale) != layer.layout.outputs)) return;
      layer.bias = source->inputs[0];
      layer.bias_scale = std::move(scale);
    }
  }

  const Model& model_;
  CodedWeights weights_;
};

}  // namespace

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

std::vector<CodedLayer> coded_layers(const Model& model) { return Finder(model).run(); }

}  // namespace seqto::internal
