// The op rules of QOperator form: operators on codes, with parameters from the ranges.
// Ids (D1 ...) are those of docs/compatibility.md.
#include <cmath>
#include <unordered_map>

#include "quantization/calibration/clip_bounds.h"
#include "quantization/lower/qoperator_layers.h"
#include "quantization/lower/writers.h"

namespace seqto::internal {
namespace {

// --- operators of com.microsoft with quantized inputs and parameters for the output

void emit_quantized(OperatorWriter& w, Node node, const std::string& y, QuantizedTensor output) {
  node.outputs = {output.codes};
  w.define(y, std::move(output));
  w.emit(std::move(node));
}

// The inputs that are to be quantized, as triples of codes, scale and zero point; nothing where one cannot be.
std::vector<std::string> triples(OperatorWriter& w, const std::vector<std::string>& tensors) {
  for (const auto& name : tensors)
    if (!w.quantizable(name)) return {};
  std::vector<std::string> inputs;
  for (const auto& name : tensors) {
    const QuantizedTensor& q = w.activation(name);
    for (const auto* part : {&q.codes, &q.scale, &q.zero_point}) inputs.push_back(*part);
  }
  return inputs;
}

bool write_elementwise(OperatorWriter& w, const Node& n, const std::vector<std::string>& operands,
                       std::optional<QuantizedTensor> y) {
  std::vector<std::string> inputs = y ? triples(w, operands) : std::vector<std::string>{};
  if (inputs.empty()) return w.deviate("D12"), false;
  inputs.push_back(y->scale), inputs.push_back(y->zero_point);
  emit_quantized(w, quantized_node(n, "QLinear" + n.op_type, std::move(inputs), {}), n.outputs[0], std::move(*y));
  return true;
}

bool write_binary(OperatorWriter& w, const Node& n) {
  return w.is_float(n.inputs[0]) && write_elementwise(w, n, n.inputs, w.output(n.outputs[0]));
}

bool write_unary(OperatorWriter& w, const Node& n) {
  if (!w.is_float(n.inputs[0])) return false;
  if (n.op_type == "Sigmoid" && w.options().nnapi_sigmoid)
    return write_elementwise(w, n, {n.inputs[0]}, w.output(n.outputs[0], 1.0f / 256, 0));
  return write_elementwise(w, n, {n.inputs[0]}, w.output(n.outputs[0]));
}

bool write_average_pool(OperatorWriter& w, const Node& n) {
  if (n.attribute("dilations")) return w.deviate("D44"), false;  // the quantized operator has none
  return write_unary(w, n);
}

bool write_softmax(OperatorWriter& w, const Node& n) {
  if (!w.is_float(n.inputs[0])) return false;
  int32_t zero_point = w.options().activation_type == DataType::kUint8 ? 0 : -128;
  Node with_opset = n;
  with_opset.set_attribute({"opset", w.index().opset});
  return write_elementwise(w, with_opset, {n.inputs[0]}, w.output(n.outputs[0], 1.0f / 256, zero_point));
}

bool write_global_pool(OperatorWriter& w, const Node& n) {
  const QuantizedTensor* x = w.is_float(n.inputs[0]) ? w.find_here(n.inputs[0]) : nullptr;
  if (!x) return false;
  std::optional<QuantizedTensor> y = w.output(n.outputs[0]);
  if (!y) {  // its type is unknown, so nobody calibrated it
    y = *x;
    y->codes = w.fresh(n.outputs[0] + "_quantized");
  }
  Node with_layout = n;
  with_layout.set_attribute({"channels_last", int64_t{0}});
  return write_elementwise(w, with_layout, {n.inputs[0]}, std::move(y));
}

bool write_concat(OperatorWriter& w, const Node& n) {
  if (!w.is_float(n.inputs[0])) return false;
  std::optional<QuantizedTensor> y = w.output(n.outputs[0]);
  std::vector<std::string> operands = y ? triples(w, n.inputs) : std::vector<std::string>{};
  if (operands.empty()) return w.deviate("D12"), false;
  operands.insert(operands.begin(), {y->scale, y->zero_point});
  emit_quantized(w, quantized_node(n, "QLinearConcat", std::move(operands), {}), n.outputs[0], std::move(*y));
  return true;
}

bool write_where(OperatorWriter& w, const Node& n) {
  if (!w.options().force_quantize_no_input_check || !w.is_float(n.inputs[1])) return false;
  std::optional<QuantizedTensor> y = w.output(n.outputs[0]);
  std::vector<std::string> inputs = y ? triples(w, {n.inputs[1], n.inputs[2]}) : std::vector<std::string>{};
  if (inputs.empty()) return w.deviate("D12"), false;
  inputs.insert(inputs.begin(), n.inputs[0]);
  inputs.push_back(y->scale), inputs.push_back(y->zero_point);
  emit_quantized(w, quantized_node(n, "QLinearWhere", std::move(inputs), {}), n.outputs[0], std::move(*y));
  return true;
}

// --- operators that keep their input's parameters

// Relu and Clip vanish where the codes cannot say anything that they would change.
bool write_clipping(OperatorWriter& w, const Node& n) {
  const QuantizedTensor* x = w.is_float(n.inputs[0]) ? w.find_here(n.inputs[0]) : nullptr;
  if (!x || w.options().symmetric_activations) return false;
  auto bounds = bounds_of(*x);
  if (!bounds || !within_clip(n, w.index(), *bounds)) {
    w.deviate(w.index().read_count(n.inputs[0]) > 1 ? "D31" : n.op_type == "Clip" ? "D3" : "D2");
    return false;
  }
  w.define(n.outputs[0], *x);
  return true;
}

bool write_argmax(OperatorWriter& w, const Node& n) {
  const QuantizedTensor* x = w.is_float(n.inputs[0]) ? w.find(n.inputs[0]) : nullptr;
  if (!x) return false;
  if (x->params.axis) return w.deviate("D18"), false;
  Node node = n;
  node.inputs[0] = x->codes;
  w.emit(std::move(node));
  return true;
}

bool write_max_pool(OperatorWriter& w, const Node& n) { return w.index().opset >= 12 && write_moved(w, n); }
bool write_resize(OperatorWriter& w, const Node& n) { return w.index().opset >= 11 && write_moved(w, n); }

bool write_split(OperatorWriter& w, const Node& n) {
  if (!w.is_float(n.inputs[0])) return false;
  if (!w.quantizable(n.inputs[0])) return w.deviate("D12"), false;
  QuantizedTensor x = w.activation(n.inputs[0]);
  Node node = quantized_node(n, "Split", n.inputs, n.outputs, "");
  node.inputs[0] = x.codes;
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    QuantizedTensor y = x;
    node.outputs[i] = y.codes = w.fresh(n.outputs[i] + "quantized");
    w.define(n.outputs[i], std::move(y));
  }
  w.emit(std::move(node));
  return true;
}

// The codes that a Pad fills in; empty where they cannot say the value.
std::string pad_codes(OperatorWriter& w, const Node& n, const QuantizedTensor& x) {
  if (n.inputs.size() < 3 || n.inputs[2].empty()) return x.zero_point;
  const std::string& name = n.inputs[2];
  if (w.index().read_count(name) > 1) w.deviate("D46");
  std::string codes = name + "_quantized";
  const Tensor* value = w.initializer(name);
  if (!value) {
    if (!w.is_float(name)) return "";
    w.ensure_float(name);
    codes = w.fresh(codes);
    w.emit({name + "_QuantizeLinear", "QuantizeLinear", "", {name, x.scale, x.zero_point}, {codes}, {}, {}});
    return codes;
  }
  auto bounds = bounds_of(x);
  double v = value->element_count() == 1 ? element(*value, 0) : 0;
  bool inside = bounds && value->type() == DataType::kFloat && v >= bounds->lowest - bounds->step &&
                v <= bounds->highest + bounds->step;
  return inside ? w.add_initializer(codes, quantize(*value, x.params)) : "";
}

bool write_pad(OperatorWriter& w, const Node& n) {
  if (w.index().opset < 11 || !w.is_float(n.inputs[0]) || !w.find_here(n.inputs[0])) return false;
  QuantizedTensor x = w.activation(n.inputs[0]);
  Node node = n;
  node.inputs[0] = x.codes;
  if (n.string_attribute("mode", "constant") == "constant") {
    std::string filling = pad_codes(w, n, x);
    if (filling.empty()) return w.deviate("D45"), false;
    if (node.inputs.size() < 3) node.inputs.resize(3);
    node.inputs[2] = filling;
  }
  node.outputs[0] = x.codes = w.fresh(n.outputs[0] + "_quantized");
  w.define(n.outputs[0], std::move(x));
  w.emit(std::move(node));
  return true;
}

using RuleFunction = bool (*)(OperatorWriter&, const Node&);
const std::unordered_map<std::string, RuleFunction>& rules() {
  static const std::unordered_map<std::string, RuleFunction> kRules{
      {"ArgMax", write_argmax},
      {"Conv", write_quantized_conv},
      {"Gemm", write_quantized_gemm},
      {"MatMul", write_quantized_matmul},
      {"Add", write_binary},
      {"Mul", write_binary},
      {"Relu", write_clipping},
      {"Clip", write_clipping},
      {"LeakyRelu", write_unary},
      {"Sigmoid", write_unary},
      {"MaxPool", write_max_pool},
      {"GlobalAveragePool", write_global_pool},
      {"Split", write_split},
      {"Pad", write_pad},
      {"Reshape", write_moved},
      {"Squeeze", write_moved},
      {"Unsqueeze", write_moved},
      {"Flatten", write_moved},
      {"Transpose", write_moved},
      {"Resize", write_resize},
      {"AveragePool", write_average_pool},
      {"Concat", write_concat},
      {"Softmax", write_softmax},
      {"Where", write_where},
      {"Gather", write_gather},
      {"EmbedLayerNormalization", write_embed_layer_norm},
  };
  return kRules;
}

// onnxruntime asks nobody whether a Where is selected, and forgets to dequantize for one that stays float.
void note_where(const OperatorWriter& w, const Node& n, bool selected) {
  bool force = w.options().force_quantize_no_input_check;
  if (force && !selected) w.deviate("D32");
  for (const auto& name : n.inputs)
    if (!force && w.needs_dequantizing(name)) w.deviate("D11");
}

bool write_node(OperatorWriter& w, const Node& n, const LayerSet& layers) {
  auto rule = rules().find(n.op_type);
  if (rule == rules().end() || n.inputs.empty()) return false;
  bool selected = is_selected(w, n, layers);
  if (n.op_type == "Where") note_where(w, n, selected);
  if (!selected) return false;
  w.note_half(n.inputs[0]);
  return rule->second(w, n);
}

}  // namespace

Model write_qoperator(const Model& model, const GraphView& index, const LayerSet& layers, const RangeView& ranges,
                      const LayerwiseOptions& options, WeightCache& cache, Encoding& encoding) {
  OperatorContext context{options, &ranges, cache, encoding};
  OperatorWriter writer(model, index, context);
  auto rule = [&](OperatorWriter& w, const Node& n) { return write_node(w, n, layers); };
  return with_graph(model, writer.run(rule));
}

}  // namespace seqto::internal
