// The op rules of dynamic quantization: integer operators whose activations are quantized at run time.
// Ids (D1 ...) are those of docs/compatibility.md.
#include <fmt/format.h>

#include <unordered_map>

#include "quantization/lower/operator_rules.h"
#include "quantization/lower/writers.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

struct Operands {
  QuantizedTensor x, weight;
};

// y = cast(integer operator) * (x_scale * weight_scale)
void emit_integer(OperatorWriter& w, const Node& from, const std::string& op_type, const Operands& in,
                  const std::string& y) {
  std::string codes = w.fresh(y + "_output_quantized"), cast = w.fresh(codes + "_cast_output");
  Node node =
      quantized_node(from, op_type, {in.x.codes, in.weight.codes, in.x.zero_point, in.weight.zero_point}, {codes}, "");
  std::string name = node.name;
  w.emit(std::move(node));
  w.emit({codes + "_cast", "Cast", "", {codes}, {cast}, {{"to", static_cast<int64_t>(DataType::kFloat)}}, {}});
  std::string scale = w.scale_product(in.x.scale, in.weight.scale, name);
  w.emit({name.empty() ? "" : name + "_output_scale_mul", "Mul", "", {cast, scale}, {y}, {}, {}});
}

bool write_matmul(OperatorWriter& w, const Node& n) {
  const std::string &a = n.inputs[0], &b = n.inputs[1];
  if (!w.is_float(a) && !w.is_float(b)) return false;
  if (is_excluded_product(w, b)) return false;
  if (!w.quantizable(a) || !w.quantizable(b)) return w.deviate("D12"), false;
  if (!w.is_float(a) && !w.is_float(n.outputs[0])) w.deviate("D47");
  QuantizedTensor x = w.activation(a);
  emit_integer(w, n, "MatMulInteger", {x, w.weight(b, w.options().weight_type, column_axis(w, b))}, n.outputs[0]);
  return true;
}

bool write_conv(OperatorWriter& w, const Node& n) {
  if (!w.is_float(n.inputs[0])) return false;
  bool has_bias = n.inputs.size() > 2 && !n.inputs[2].empty();
  const Tensor* filter = w.initializer(n.inputs[1]);
  if (!w.quantizable(n.inputs[1]) || (has_bias && !filter)) return w.deviate("D12"), false;
  QuantizedTensor x = w.activation(n.inputs[0]);
  Operands operands{x, w.weight(n.inputs[1], w.options().weight_type, {})};
  const std::string& y = n.outputs[0];
  if (!has_bias) return emit_integer(w, n, "ConvInteger", operands, y), true;
  std::string scaled = w.fresh(y + "quant_scaled_output"), shaped = w.fresh(y + "_bias_reshape_output");
  emit_integer(w, n, "ConvInteger", operands, scaled);
  std::vector<int64_t> shape(filter->dims().size(), 1);
  shape[1] = -1;
  int64_t rank = static_cast<int64_t>(shape.size());
  w.read_float(n.inputs[2]);
  std::string dims = w.add_initializer(y + "_bias_reshape_shape", int64_tensor({rank}, std::move(shape)));
  w.emit({"", "Reshape", "", {n.inputs[2], dims}, {shaped}, {}, {}});
  w.emit({y + "_bias_add", "Add", "", {scaled, shaped}, {y}, {}, {}});
  return true;
}

// y = x * B of a dense Gemm; B may lie transposed in the file.
void emit_dense(OperatorWriter& w, const Node& n, const std::string& y) {
  const std::string& b = n.inputs[1];
  const Tensor* value = w.initializer(b);
  DataType type = w.options().weight_type;
  Node product{n.name.empty() ? "" : n.name + "_MatMul", "MatMul", "", {}, {}, {}, {}};
  QuantizedTensor x = w.activation(n.inputs[0]);
  if (n.int_attribute("transB", 0) == 0) {
    emit_integer(w, product, "MatMulInteger", {x, w.weight(b, type, column_axis(w, b))}, y);
    return;
  }
  std::optional<int64_t> axis;
  std::vector<int64_t> params;
  if (w.options().per_channel) axis = 0, params.push_back(value->dims()[0]);
  if (w.index().read_count(b) > 1) w.deviate("D50");
  emit_integer(w, product, "MatMulInteger",
               {x, w.transposed_weight(b, *value, w.rule_of(type, axis, true), value->dims(), params)}, y);
}

bool is_dense(const Node& n) {
  return n.float_attribute("alpha", 1) == 1 && n.float_attribute("beta", 1) == 1 && n.int_attribute("transA", 0) == 0;
}

// A dense Gemm is a MatMul and an Add. Other factors and a transposed A stay float.
bool write_gemm(OperatorWriter& w, const Node& n) {
  const std::string& b = n.inputs[1];
  if (!is_dense(n)) return false;
  bool constant_or_plain = w.initializer(b) || (!is_excluded_product(w, b) && n.int_attribute("transB", 0) == 0);
  bool is_float = w.is_float(n.inputs[0]) || w.is_float(b);
  if (!constant_or_plain || !is_float || !w.quantizable(n.inputs[0]) || !w.quantizable(b))
    return w.deviate("D42"), false;
  bool has_bias = n.inputs.size() > 2 && !n.inputs[2].empty();
  bool type_known = w.is_float(n.inputs[0]) || (!has_bias && w.is_float(n.outputs[0]));
  if (!w.options().include.empty() && !n.name.empty()) w.deviate("D42");  // there it has another name by then
  else if (!type_known) w.deviate("D47");
  if (n.inputs.size() > 2 && !has_bias) w.deviate("D12");
  if (!has_bias) return emit_dense(w, n, n.outputs[0]), true;
  std::string product = w.fresh(n.outputs[0] + "_MatMul");
  emit_dense(w, n, product);
  w.ensure_float(n.inputs[2]);
  w.emit({n.name.empty() ? "" : n.name + "_Add", "Add", "", {product, n.inputs[2]}, n.outputs, {}, {}});
  return true;
}

// W or R: [directions, 4 * hidden, inputs], stored as [directions, inputs, 4 * hidden].
QuantizedTensor lstm_weight(OperatorWriter& w, const std::string& name, const Tensor& value) {
  const auto& dims = value.dims();
  WeightRule rule = w.rule_of(DataType::kInt8, 0, true);
  if (!rule.symmetric) w.deviate("D48");  // the operator takes no zero point but 0
  rule.symmetric = true;
  if (!w.options().per_channel) return w.transposed_weight(name, value, rule, dims, {dims[0]});
  Tensor rows = value.reshaped({dims[0] * dims[1], dims[2]});
  return w.transposed_weight(name, rows, rule, dims, {dims[0], dims[1]});
}

bool write_lstm(OperatorWriter& w, const Node& n) {
  constexpr size_t kInputs = 8;
  if (!w.is_float(n.inputs[0])) return false;
  const Tensor *input = w.initializer(n.inputs[1]), *recurrence = w.initializer(n.inputs[2]);
  for (const Tensor* t : {input, recurrence})
    if (!t || t->type() != DataType::kFloat || t->dims().size() != 3) return false;
  // The quantized operator knows the first layout alone.
  if (n.int_attribute("layout", 0) != 0) return w.deviate("D28"), false;
  for (const auto& name : {n.inputs[1], n.inputs[2]})
    if (w.index().read_count(name) > 1) w.deviate("D43");
  QuantizedTensor W = lstm_weight(w, n.inputs[1], *input), R = lstm_weight(w, n.inputs[2], *recurrence);
  std::vector<std::string> inputs = n.inputs;
  inputs.resize(kInputs);
  inputs[1] = inputs[2] = "";
  w.ensure_float(n.inputs[0]);
  for (const auto& name : inputs) w.read_float(name);
  inputs[1] = W.codes, inputs[2] = R.codes;
  for (const auto& name : {W.scale, W.zero_point, R.scale, R.zero_point}) inputs.push_back(name);
  Node node = quantized_node(n, "DynamicQuantizeLSTM", std::move(inputs), n.outputs);
  std::erase_if(node.attributes, [](const Attribute& a) { return a.name == "layout"; });
  w.emit(std::move(node));
  return true;
}

bool write_attention(OperatorWriter& w, const Node& n) {
  constexpr size_t kBias = 2, kMask = 3, kPast = 4;
  if (n.attribute("qkv_hidden_sizes")) return false;
  for (size_t i = kPast + 1; i < n.inputs.size(); ++i)  // the quantized operator has no such inputs
    if (!n.inputs[i].empty()) return w.deviate("D44"), false;
  if (n.inputs.size() <= kBias || n.inputs[kBias].empty()) return w.deviate("D44"), false;
  if (!w.quantizable(n.inputs[0]) || !w.quantizable(n.inputs[1])) return w.deviate("D12"), false;
  auto input = [&](size_t i) {
    std::string name = i < n.inputs.size() ? n.inputs[i] : "";
    w.read_float(name);
    return name;
  };
  QuantizedTensor x = w.activation(n.inputs[0]);
  QuantizedTensor weight = w.weight(n.inputs[1], w.options().weight_type, column_axis(w, n.inputs[1]));
  w.emit(quantized_node(n, "QAttention",
                        {x.codes, weight.codes, input(kBias), x.scale, weight.scale, input(kMask), x.zero_point,
                         weight.zero_point, input(kPast)},
                        n.outputs));
  return true;
}

using RuleFunction = bool (*)(OperatorWriter&, const Node&);
const std::unordered_map<std::string, RuleFunction>& rules() {
  static const std::unordered_map<std::string, RuleFunction> kRules{
      {"Conv", write_conv},           {"MatMul", write_matmul},
      {"Gemm", write_gemm},           {"LSTM", write_lstm},
      {"Attention", write_attention}, {"Gather", write_gather},
      {"Transpose", write_moved},     {"EmbedLayerNormalization", write_embed_layer_norm}};
  return kRules;
}

bool write_node(OperatorWriter& w, const Node& n, const LayerSet& layers) {
  auto rule = rules().find(n.op_type);
  if (rule == rules().end() || n.inputs.empty()) return false;
  if (is_selected(w, n, layers)) {
    w.note_half(n.inputs[0]);
    return rule->second(w, n);
  }
  if (n.op_type == "Gemm" && is_dense(n)) w.deviate("D42");
  return false;
}

}  // namespace

Model write_dynamic(const Model& model, const LayerSet& layers, const LayerwiseOptions& options, WeightCache& cache,
                    Encoding& encoding) {
  if (model.opset() < 11)
    throw Error(Code::kInvalidInput,
                fmt::format("[quantize] opset {} found; activations are quantized at run time from opset 11 on; run "
                            "`seqto prepare` first or export with a newer opset",
                            model.opset()));
  if (DataType type = options.common().weight_type; !is_8_bits(type))
    throw Error(Code::kUsage,
                fmt::format("[quantize] {} weights found; integer operators take int8 or uint8", to_string(type)));
  GraphView index(model);
  OperatorContext context{options, nullptr, cache, encoding};
  OperatorWriter writer(model, index, context);
  auto rule = [&](OperatorWriter& w, const Node& n) { return write_node(w, n, layers); };
  return with_graph(model, writer.run(rule));
}

}  // namespace seqto::internal
