// The op rules of QOperator form: operators on codes, with parameters from the ranges.
// Ids (D1 ...) are those of docs/reference/compatibility.md.
#include <unordered_map>

#include "model/op_traits.h"
#include "quantization/calibration/clip_bounds.h"
#include "quantization/encode/qoperator_layers.h"

namespace seqto::internal {
namespace {

// --- operators of com.microsoft with quantized inputs and parameters for the output

void emit_quantized(OperatorEncoder& e, Node node, const std::string& y, QuantizedTensor output) {
  node.outputs = {output.codes};
  e.define(y, std::move(output));
  e.emit(std::move(node));
}

// The inputs that are to be quantized, as triples of codes, scale and zero point; nothing where one cannot be.
std::vector<std::string> triples(OperatorEncoder& e, const std::vector<std::string>& tensors) {
  for (const auto& name : tensors)
    if (!e.quantizable(name)) return {};
  std::vector<std::string> inputs;
  for (const auto& name : tensors) {
    const QuantizedTensor& q = e.activation(name);
    for (const auto* part : {&q.codes, &q.scale, &q.zero_point}) inputs.push_back(*part);
  }
  return inputs;
}

bool encode_elementwise(OperatorEncoder& e, const Node& n, const std::vector<std::string>& operands,
                        std::optional<QuantizedTensor> y) {
  std::vector<std::string> inputs = y ? triples(e, operands) : std::vector<std::string>{};
  if (inputs.empty()) return e.deviate("D12"), false;
  inputs.push_back(y->scale), inputs.push_back(y->zero_point);
  emit_quantized(e, quantized_node(n, "QLinear" + n.op_type, std::move(inputs), {}), n.outputs[0], std::move(*y));
  return true;
}

bool encode_binary(OperatorEncoder& e, const Node& n) {
  return e.is_float(n.inputs[0]) && encode_elementwise(e, n, n.inputs, e.output(n.outputs[0]));
}

bool encode_unary(OperatorEncoder& e, const Node& n) {
  if (!e.is_float(n.inputs[0])) return false;
  if (is_sigmoid(n) && e.options().nnapi_sigmoid)
    return encode_elementwise(e, n, {n.inputs[0]}, e.output(n.outputs[0], 1.0f / 256, 0));
  return encode_elementwise(e, n, {n.inputs[0]}, e.output(n.outputs[0]));
}

bool encode_average_pool(OperatorEncoder& e, const Node& n) {
  if (n.attribute("dilations")) return e.deviate("D44"), false;  // the quantized operator has none
  return encode_unary(e, n);
}

bool encode_softmax(OperatorEncoder& e, const Node& n) {
  if (!e.is_float(n.inputs[0])) return false;
  int32_t zero_point = e.options().activation_type == DataType::kUint8 ? 0 : -128;
  Node with_opset = n;
  with_opset.set_attribute({"opset", e.index().opset});
  if (e.index().opset < 13 && !n.attribute("axis") && !e.options().compat_onnxruntime) {
    with_opset.set_attribute({"axis", int64_t{1}});  // the quantized operator's own default is the last one
    e.deviate("D63");
  }
  return encode_elementwise(e, with_opset, {n.inputs[0]}, e.output(n.outputs[0], 1.0f / 256, zero_point));
}

bool encode_global_pool(OperatorEncoder& e, const Node& n) {
  const QuantizedTensor* x = e.is_float(n.inputs[0]) ? e.find_here(n.inputs[0]) : nullptr;
  if (!x) return false;
  std::optional<QuantizedTensor> y = e.output(n.outputs[0]);
  if (!y) {  // its type is unknown, so nobody calibrated it
    y = *x;
    y->codes = e.fresh(n.outputs[0] + "_quantized");
  }
  Node with_layout = n;
  with_layout.set_attribute({"channels_last", int64_t{0}});
  return encode_elementwise(e, with_layout, {n.inputs[0]}, std::move(y));
}

bool encode_concat(OperatorEncoder& e, const Node& n) {
  if (!e.is_float(n.inputs[0])) return false;
  std::optional<QuantizedTensor> y = e.output(n.outputs[0]);
  std::vector<std::string> operands = y ? triples(e, n.inputs) : std::vector<std::string>{};
  if (operands.empty()) return e.deviate("D12"), false;
  operands.insert(operands.begin(), {y->scale, y->zero_point});
  emit_quantized(e, quantized_node(n, "QLinearConcat", std::move(operands), {}), n.outputs[0], std::move(*y));
  return true;
}

bool encode_where(OperatorEncoder& e, const Node& n) {
  if (!e.options().force_quantize_no_input_check || !e.is_float(n.inputs[1])) return false;
  std::optional<QuantizedTensor> y = e.output(n.outputs[0]);
  std::vector<std::string> inputs = y ? triples(e, {n.inputs[1], n.inputs[2]}) : std::vector<std::string>{};
  if (inputs.empty()) return e.deviate("D12"), false;
  inputs.insert(inputs.begin(), n.inputs[0]);
  inputs.push_back(y->scale), inputs.push_back(y->zero_point);
  emit_quantized(e, quantized_node(n, "QLinearWhere", std::move(inputs), {}), n.outputs[0], std::move(*y));
  return true;
}

// --- operators that keep their input's parameters

// Relu and Clip vanish where the codes cannot say anything that they would change.
bool encode_clipping(OperatorEncoder& e, const Node& n) {
  const QuantizedTensor* x = e.is_float(n.inputs[0]) ? e.find_here(n.inputs[0]) : nullptr;
  if (!x || e.options().symmetric_activations) return false;
  auto bounds = bounds_of(*x);
  if (!bounds || !within_clip(n, e.index(), *bounds)) {
    e.deviate(e.index().read_count(n.inputs[0]) > 1 ? "D31" : is_clip(n) ? "D3" : "D2");
    return false;
  }
  e.define(n.outputs[0], *x);
  return true;
}

bool encode_argmax(OperatorEncoder& e, const Node& n) {
  const QuantizedTensor* x = e.is_float(n.inputs[0]) ? e.find(n.inputs[0]) : nullptr;
  if (!x) return false;
  if (x->params.axis) return e.deviate("D18"), false;
  Node node = n;
  node.inputs[0] = x->codes;
  e.emit(std::move(node));
  return true;
}

bool encode_max_pool(OperatorEncoder& e, const Node& n) { return e.index().opset >= 12 && encode_moved(e, n); }
bool encode_resize(OperatorEncoder& e, const Node& n) {
  if (n.string_attribute("mode", "nearest") == "cubic") return e.deviate("D64"), false;  // of floats alone
  return e.index().opset >= 11 && encode_moved(e, n);
}

bool encode_split(OperatorEncoder& e, const Node& n) {
  if (!e.is_float(n.inputs[0])) return false;
  if (!e.quantizable(n.inputs[0])) return e.deviate("D12"), false;
  QuantizedTensor x = e.activation(n.inputs[0]);
  Node node = quantized_node(n, "Split", n.inputs, n.outputs, "");
  node.inputs[0] = x.codes;
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    QuantizedTensor y = x;
    node.outputs[i] = y.codes = e.fresh(n.outputs[i] + "quantized");
    e.define(n.outputs[i], std::move(y));
  }
  e.emit(std::move(node));
  return true;
}

// The codes that a Pad fills in; empty where they cannot say the value.
std::string pad_codes(OperatorEncoder& e, const Node& n, const QuantizedTensor& x) {
  if (n.inputs.size() < 3 || n.inputs[2].empty()) return x.zero_point;
  const std::string& name = n.inputs[2];
  if (e.index().read_count(name) > 1) e.deviate("D46");
  std::string codes = name + "_quantized";
  const Tensor* value = e.initializer(name);
  if (!value) {
    if (!e.is_float(name)) return "";
    e.ensure_float(name);
    codes = e.fresh(codes);
    e.emit({name + "_QuantizeLinear", "QuantizeLinear", "", {name, x.scale, x.zero_point}, {codes}, {}, {}});
    return codes;
  }
  auto bounds = bounds_of(x);
  double v = value->element_count() == 1 ? element(*value, 0) : 0;
  bool inside = bounds && value->type() == DataType::kFloat && v >= bounds->lowest - bounds->step &&
                v <= bounds->highest + bounds->step;
  return inside ? e.add_initializer(codes, quantize(*value, x.params)) : "";
}

bool encode_pad(OperatorEncoder& e, const Node& n) {
  if (e.index().opset < 11 || !e.is_float(n.inputs[0]) || !e.find_here(n.inputs[0])) return false;
  QuantizedTensor x = e.activation(n.inputs[0]);
  Node node = n;
  node.inputs[0] = x.codes;
  if (n.string_attribute("mode", "constant") == "constant") {
    std::string filling = pad_codes(e, n, x);
    if (filling.empty()) return e.deviate("D45"), false;
    if (node.inputs.size() < 3) node.inputs.resize(3);
    node.inputs[2] = filling;
  }
  node.outputs[0] = x.codes = e.fresh(n.outputs[0] + "_quantized");
  e.define(n.outputs[0], std::move(x));
  e.emit(std::move(node));
  return true;
}

using RuleFunction = bool (*)(OperatorEncoder&, const Node&);
const std::unordered_map<std::string, RuleFunction>& rules() {
  static const std::unordered_map<std::string, RuleFunction> kRules{
      {"ArgMax", encode_argmax},
      {"Conv", encode_conv},
      {"Gemm", encode_gemm},
      {"MatMul", encode_matmul},
      {"Add", encode_binary},
      {"Mul", encode_binary},
      {"Relu", encode_clipping},
      {"Clip", encode_clipping},
      {"LeakyRelu", encode_unary},
      {"Sigmoid", encode_unary},
      {"MaxPool", encode_max_pool},
      {"GlobalAveragePool", encode_global_pool},
      {"Split", encode_split},
      {"Pad", encode_pad},
      {"Reshape", encode_moved},
      {"Squeeze", encode_moved},
      {"Unsqueeze", encode_moved},
      {"Flatten", encode_moved},
      {"Transpose", encode_moved},
      {"Resize", encode_resize},
      {"AveragePool", encode_average_pool},
      {"Concat", encode_concat},
      {"Softmax", encode_softmax},
      {"Where", encode_where},
      {"Gather", encode_gather},
      {"EmbedLayerNormalization", encode_embed_layer_norm},
  };
  return kRules;
}

// onnxruntime asks nobody whether a Where is selected, and forgets to dequantize for one that stays float.
void note_where(OperatorEncoder& e, const Node& n, bool selected) {
  bool force = e.options().force_quantize_no_input_check;
  if (force && !selected) e.deviate("D32");
  for (const auto& name : n.inputs)
    if (!force && e.needs_dequantizing(name)) e.deviate("D11");
}

}  // namespace

bool encode_qoperator_node(OperatorEncoder& e, const Node& n, const LayerSet& layers) {
  auto rule = rules().find(n.op_type);
  if (rule == rules().end() || n.inputs.empty()) return false;
  bool selected = is_selected(e, n, layers);
  if (is_where(n)) note_where(e, n, selected);
  if (!selected) return false;
  e.note_half(n.inputs[0]);
  return rule->second(e, n);
}

}  // namespace seqto::internal
