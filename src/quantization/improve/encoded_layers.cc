#include "quantization/improve/encoded_layers.h"

#include <algorithm>

#include "model/op_traits.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/plan/qoperator_forms.h"

namespace seqto::internal {
namespace {

std::string own_bias(const Node& node) { return layer_of(node) + "_corrected_bias"; }

bool is_product(const Node& node) { return node.domain.empty() && (is_conv(node) || has(node, kMatrixProduct)); }

}  // namespace

LayerId layer_of(const Node& node) { return qoperator_form(node) ? original_name(node.name) : node.name; }

EncodedLayers::EncodedLayers(Encoding& encoding, const Model& model, const GraphView& view)
    : encoding_(encoding), model_(model), view_(view) {
  for (size_t i = 0; i < encoding.tensors.size(); ++i) {
    const auto& [codes, scale, zero_point] = encoding.tensors[i].names;
    if (codes.empty()) tensors_[encoding.tensors[i].name] = i;
    else tensors_[codes] = tensors_[scale] = i;
  }
  for (size_t i = 0; i < encoding.biases.size(); ++i) biases_[encoding.biases[i].name] = i;
  for (size_t i = 0; i < encoding.weights.size(); ++i)
    for (const EncodedWeight::Reader& reader : encoding.weights[i].readers) weights_[reader.layer].push_back(i);
  if (encoding.graph) edges_.emplace(nodes(), model.graph.outputs, encoding.graph->removed);
}

const EncodedTensor* EncodedLayers::tensor(const std::string& name) const {
  auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &encoding_.tensors[it->second];
}

const EncodedWeight* EncodedLayers::weight_of(const Node& node) const {
  auto it = weights_.find(node.name);
  if (it == weights_.end()) return nullptr;
  for (const size_t i : it->second)
    for (const EncodedWeight::Reader& reader : encoding_.weights[i].readers)
      if (reader.layer == node.name && reader.input == 1) return &encoding_.weights[i];
  return nullptr;
}

// --- codes

std::optional<EncodedLayers::Codes> EncodedLayers::codes_of(const Node& node) {
  const auto form = qoperator_form(node);
  if (node.name.empty() || (!form && !is_product(node))) return {};
  const std::string& name = node.inputs[form ? QoperatorForm::kWeight : 1];
  if (const EncodedTensor* found = tensor(name)) {
    if (!found->codes || found->float_type != DataType::kFloat || uses(name) != 1) return {};
    auto& codes = encoding_.tensors[tensors_.at(name)].codes;
    return Codes{&*codes, coded_weight(*found)};
  }
  const EncodedWeight* found = weight_of(node);
  if (!found || found->readers.size() != 1 || found->stored.scale.type() != DataType::kFloat) return {};
  if (found->readers[0].transposed && found->form != StoredForm::kMatMulNBits) return {};
  auto& stored = encoding_.weights[static_cast<size_t>(found - encoding_.weights.data())].stored;
  return Codes{&stored.codes, coded_weight(*found, view_.constant(found->name)->dims()), &stored};
}

bool EncodedLayers::takes_bias(const Node& node) const {
  if (const auto form = qoperator_form(node)) return form->bias != 0 && node.float_attribute("alpha", 1) == 1;
  if (!(has(node, kConv) || is_gemm(node)) || has_factors(node) || !node.domain.empty()) return false;
  if (tensor(node.inputs[1])) return true;
  const EncodedWeight* weight = weight_of(node);
  return weight && weight->form != StoredForm::kMatMulNBits && weight->stored.scale.type() != DataType::kFloat16;
}

// --- biases

size_t EncodedLayers::bias_input_of(const Node& node) const {
  if (const auto form = qoperator_form(node)) return form->bias;
  return has(node, kConv) || is_gemm(node) ? 2 : 0;
}

bool EncodedLayers::has_bias(const Node& node) const {
  const size_t input = bias_input_of(node);
  if (biases_.contains(own_bias(node))) return true;
  return input > 0 && input < node.inputs.size() && !node.inputs[input].empty();
}

std::optional<EncodedLayers::Bias> EncodedLayers::bias_of(const Node& node) const {
  if (!has_bias(node)) return {};
  // A graph of the encoding shows which one the layer reads; the float model's does not.
  const std::string own = own_bias(node);
  const std::string& name = biases_.contains(own) ? own : node.inputs[bias_input_of(node)];
  if (auto it = biases_.find(name); it != biases_.end()) {
    const EncodedBias& found = encoding_.biases[it->second];
    return Bias{name, found.values, found.scale, name == own || uses(name) == 1};
  }
  if (tensor(name)) return {};  // an override of its type: it is held as codes like any constant
  const Tensor* values = nullptr;
  if (encoding_.graph)
    for (const Initializer& i : encoding_.graph->new_initializers)
      if (i.name == name) values = &i.tensor;
  if (auto it = view_.initializers.find(name); it != view_.initializers.end()) values = it->second;
  if (!values || values->type() != DataType::kFloat) return {};
  return Bias{name, *values, {}, uses(name) == 1};
}

bool EncodedLayers::Bias::holds(int64_t channels) const {
  return is_own && holds_channels(values, channels) && (scale.size() <= 1 || std::ssize(scale) == channels);
}

void EncodedLayers::replace(const Node& node, const Bias& bias, Tensor values) {
  if (!bias.is_own) return give(node, std::move(values), bias.scale, false);
  if (auto it = biases_.find(bias.name); it != biases_.end()) {
    encoding_.biases[it->second].values = std::move(values);
    return;
  }
  biases_[bias.name] = encoding_.biases.size();
  encoding_.biases.push_back({.name = bias.name, .layer = node.name, .values = std::move(values), .is_float = true});
}

void EncodedLayers::add_bias(const Node& node, const std::vector<float>& values) {
  const auto form = qoperator_form(node);
  const EncodedTensor* weight = tensor(node.inputs[form ? QoperatorForm::kWeightScale : 1]);
  const auto input = weight ? input_scale(node) : std::nullopt;
  if (!input) {
    if (!form) add_float_bias(node, values);
    return;
  }
  const std::vector<float>& scale = weight->read_by(node.name).scale;
  if (weight->float_type != DataType::kFloat || (scale.size() != 1 && scale.size() != values.size())) return;
  QuantizedBias bias = quantize_bias(values, *input, scale);
  Tensor codes = Tensor::from(DataType::kInt32, {std::ssize(values)}, std::move(bias.values));
  give(node, std::move(codes), std::move(bias.scale), true);
}

void EncodedLayers::add_float_bias(const Node& node, const std::vector<float>& values) {
  const EncodedTensor* weight = tensor(node.inputs[1]);
  if (!weight || weight->float_type == DataType::kFloat)
    give(node, float_tensor({std::ssize(values)}, values), {}, true);
}

// Also of a tensor that the model itself dequantizes.
std::optional<float> EncodedLayers::input_scale(const Node& node) const {
  const auto form = qoperator_form(node);
  const std::string& input = node.inputs[form ? QoperatorForm::kInputScale : 0];
  if (const EncodedTensor* found = tensor(input)) return found->read_by(node.name).scale[0];
  const Node* source = view_.edges.producer(input);
  const Tensor* scale = source && is_dequantize(*source) ? view_.constant(source->inputs[1]) : nullptr;
  return scale && scale->type() == DataType::kFloat ? std::optional(to_floats(*scale)[0]) : std::nullopt;
}

void EncodedLayers::give(const Node& node, Tensor values, std::vector<float> scale, bool is_new) {
  const bool operators = qoperator_form(node).has_value();
  EncodedBias bias{.name = own_bias(node), .layer = node.name, .scale = std::move(scale), .values = std::move(values)};
  bias.is_float = bias.scale.empty();
  bias.is_added = is_new;
  if (operators) bias.name = bias.names.codes = bias.name + "_quantized";
  biases_[bias.name] = encoding_.biases.size();
  if (encoding_.graph) {
    const size_t input = bias_input_of(node);
    auto& inputs = encoding_.graph->nodes[static_cast<size_t>(&node - nodes().data())].inputs;
    inputs.resize(std::max(inputs.size(), input + 1));
    inputs[input] = bias.name;
    if (operators) encoding_.graph->order.push_back(bias.name);
  }
  encoding_.biases.push_back(std::move(bias));
}

}  // namespace seqto::internal
