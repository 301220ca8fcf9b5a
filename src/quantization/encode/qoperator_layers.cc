#include "quantization/encode/qoperator_layers.h"

namespace seqto::internal {
namespace {

// True when both inputs and the output can be quantized.
bool ready(OperatorEncoder& e, const Node& n, std::optional<QuantizedTensor>& y) {
  if (!e.quantizable(n.inputs[0]) || !e.quantizable(n.inputs[1])) return e.deviate("D12"), false;
  y = e.output(n.outputs[0]);
  if (!y) e.deviate("D12");
  return y.has_value();
}

void emit_layer(OperatorEncoder& e, const Node& n, Node node, QuantizedTensor y) {
  node.outputs = {y.codes};
  e.define(n.outputs[0], std::move(y));
  e.emit(std::move(node));
}

std::vector<std::string> operands(const QuantizedTensor& x, const QuantizedTensor& weight) {
  return {x.codes, x.scale, x.zero_point, weight.codes, weight.scale, weight.zero_point};
}

bool has_bias(OperatorEncoder& e, const Node& n) {
  if (n.inputs.size() > 2 && n.inputs[2].empty()) e.deviate("D12");
  return n.inputs.size() > 2 && !n.inputs[2].empty();
}

// A matrix of values, or one value, as one value a column where that is the same; nothing otherwise.
std::optional<Tensor> per_column(const Tensor& c, int64_t columns) {
  if (c.type() != DataType::kFloat) return {};
  if (c.element_count() == columns) {
    bool row = !c.dims().empty() && c.dims().back() == columns;
    return row ? std::optional(c.reshaped({columns})) : std::nullopt;
  }
  if (c.element_count() != 1) return {};
  return float_tensor({columns}, std::vector<float>(static_cast<size_t>(columns), c.values<float>()[0]));
}

}  // namespace

bool encode_conv(OperatorEncoder& e, const Node& n) {
  if (!e.is_float(n.inputs[0])) return false;
  std::optional<QuantizedTensor> y;
  const Tensor *filter = e.initializer(n.inputs[1]), *bias = nullptr;
  bool biased = has_bias(e, n);
  if (biased) bias = e.initializer(n.inputs[2]);
  if (biased && (!bias || bias->type() != DataType::kFloat)) return e.deviate("D12"), false;
  if (!ready(e, n, y)) return false;
  bool per_channel = filter && e.options().per_channel;
  QuantizedTensor x = e.activation(n.inputs[0]);
  QuantizedTensor* weight = per_channel ? &e.filter(n.inputs[1]) : &e.weight(n.inputs[1], e.options().weight_type, {});
  std::vector<std::string> bias_codes;
  if (bias) {
    weight = &e.fit_to_bias(n.inputs[1], *weight, n.inputs[2], *bias, x);
    bias_codes.push_back(e.bias(n.inputs[2], *bias, x, *weight));
  }
  std::vector<std::string> inputs = operands(x, *weight);
  for (const auto& name : {y->scale, y->zero_point}) inputs.push_back(name);
  inputs.insert(inputs.end(), bias_codes.begin(), bias_codes.end());
  emit_layer(e, n, quantized_node(n, "QLinearConv", std::move(inputs), {}, ""), std::move(*y));
  return true;
}

bool encode_matmul(OperatorEncoder& e, const Node& n) {
  const std::string& b = n.inputs[1];
  if (!e.is_float(n.inputs[0]) && !e.is_float(b)) return false;
  if (is_excluded_product(e, b)) return false;
  std::optional<QuantizedTensor> y;
  if (!ready(e, n, y)) return false;
  QuantizedTensor x = e.activation(n.inputs[0]);
  std::vector<std::string> inputs = operands(x, e.weight(b, e.options().weight_type, column_axis(e, b)));
  for (const auto& name : {y->scale, y->zero_point}) inputs.push_back(name);
  emit_layer(e, n, quantized_node(n, "QLinearMatMul", std::move(inputs), {}, ""), std::move(*y));
  return true;
}

namespace {

struct GemmBias {
  std::string name;  // of the initializer, or of a changed copy
  Tensor values;
};

// C as the quantized operator takes it; nothing where it cannot. The runtime scales its sum by alpha, the bias
// included, and knows no beta: both go into C.
std::optional<GemmBias> gemm_bias(OperatorEncoder& e, const Node& n, std::optional<int64_t> axis) {
  float alpha = n.float_attribute("alpha", 1), beta = n.float_attribute("beta", 1);
  const Tensor* c = e.initializer(n.inputs[2]);
  if (!c || c->type() != DataType::kFloat) return e.deviate("D12"), std::nullopt;
  GemmBias bias{n.inputs[2], *c};
  if (axis && c->dims().size() != 1) e.deviate("D15");
  if (axis && c->dims() != std::vector<int64_t>{e.initializer(n.inputs[1])->dims()[static_cast<size_t>(*axis)]}) {
    e.deviate("D15");
    auto row = per_column(*c, e.initializer(n.inputs[1])->dims()[static_cast<size_t>(*axis)]);
    if (!row) return {};
    bias = {e.fresh(n.inputs[2] + "_row"), std::move(*row)};
  }
  if (alpha == 1 && beta == 1) return bias;
  e.deviate("D1");
  if (alpha == 0) return {};
  std::vector<float> scaled = to_floats(bias.values);
  for (float& v : scaled) v *= beta / alpha;
  return GemmBias{e.fresh(n.inputs[2] + "_scaled"), float_tensor(bias.values.dims(), std::move(scaled))};
}

}  // namespace

bool encode_gemm(OperatorEncoder& e, const Node& n) {
  const std::string& b = n.inputs[1];
  if ((!e.is_float(n.inputs[0]) && !e.is_float(b)) || is_excluded_product(e, b)) return false;
  std::optional<int64_t> axis;
  if (e.options().per_channel && e.initializer(b)) axis = n.int_attribute("transB", 0) != 0 ? 0 : 1;
  std::optional<QuantizedTensor> y;
  if (!ready(e, n, y)) return false;
  std::optional<GemmBias> c;
  if (has_bias(e, n)) {
    c = gemm_bias(e, n, axis);
    if (!c) return false;
  }
  QuantizedTensor x = e.activation(n.inputs[0]);
  QuantizedTensor* weight = &e.weight(b, e.options().weight_type, axis);
  std::string bias;
  if (c) {
    weight = &e.fit_to_bias(b, *weight, c->name, c->values, x);
    bias = e.bias(c->name, c->values, x, *weight);
  }
  std::vector<std::string> inputs = operands(x, *weight);
  for (const auto& name : {bias, y->scale, y->zero_point}) inputs.push_back(name);
  Node node = quantized_node(n, "QGemm", std::move(inputs), {});
  std::erase_if(node.attributes, [](const Attribute& a) { return a.name == "beta"; });
  emit_layer(e, n, std::move(node), std::move(*y));
  return true;
}

}  // namespace seqto::internal
