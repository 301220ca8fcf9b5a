// The op rules of dynamic quantization: integer operators whose activations are quantized at run time.
// Ids (D1 ...) are those of docs/reference/compatibility.md.
#include <algorithm>
#include <unordered_map>

#include "model/op_traits.h"
#include "quantization/encode/operator_rules.h"

namespace seqto::internal {
namespace {

struct Operands {
  QuantizedTensor x, weight;
};

// y = cast(integer operator) * (x_scale * weight_scale)
void emit_integer(OperatorEncoder& e, const Node& from, const std::string& op_type, const Operands& in,
                  const std::string& y) {
  std::string codes = e.fresh(y + "_output_quantized"), cast = e.fresh(codes + "_cast_output");
  Node node =
      quantized_node(from, op_type, {in.x.codes, in.weight.codes, in.x.zero_point, in.weight.zero_point}, {codes}, "");
  std::string name = node.name;
  e.emit(std::move(node));
  e.emit({codes + "_cast", "Cast", "", {codes}, {cast}, {{"to", static_cast<int64_t>(DataType::kFloat)}}, {}});
  std::string scale = e.scale_product(in.x.scale, in.weight.scale, name);
  e.emit({name.empty() ? "" : name + "_output_scale_mul", "Mul", "", {cast, scale}, {y}, {}, {}});
}

// y = product of codes * weight_scale * row_scale. In one operator with the first scale: a Cast and a Mul alone would
// each read and write as much as the product.
void emit_rows(OperatorEncoder& e, const Node& from, const Operands& in, const std::string& y) {
  const std::string columns = e.fresh(y + "_columns_scaled");
  e.emit(quantized_node(
      from, "MatMulIntegerToFloat",
      {in.x.codes, in.weight.codes, e.row_one(), in.weight.scale, in.x.zero_point, in.weight.zero_point}, {columns}));
  e.emit({y + "_rows_mul", "Mul", "", {columns, in.x.scale}, {y}, {}, {}});
}

void emit_product(OperatorEncoder& e, const Node& from, const Operands& in, const std::string& y) {
  if (e.options().per_token) emit_rows(e, from, in, y);
  else emit_integer(e, from, "MatMulInteger", in, y);
}

// Whether this Transpose is of a table that embeddings and heads share, all of them on codes: stored once.
bool turns_shared_table(OperatorEncoder& e, const Node& n, const LayerSet& layers) {
  const Tensor* table = is_transpose(n) ? e.initializer(n.inputs[0]) : nullptr;
  if (!table || table->type() != DataType::kFloat || table->dims().size() != 2 || e.options().compat_onnxruntime)
    return false;
  const Edges& edges = e.index().edges;
  const auto is_head = [&](const Node* reader) {
    return is_matmul(*reader) && reader->inputs[1] == n.outputs[0] && reader->inputs[0] != n.outputs[0] &&
           e.is_float(reader->inputs[0]) && is_selected(e, *reader, layers);
  };
  const auto is_embedding = [&](const Node* reader) {
    return reader == &n || (is_gather(*reader) && reader->inputs[0] == n.inputs[0] && is_selected(e, *reader, layers));
  };
  const auto &heads = edges.readers(n.outputs[0]), &all = edges.readers(n.inputs[0]);
  return edges.uses(n.outputs[0]) == heads.size() && edges.uses(n.inputs[0]) == all.size() && !heads.empty() &&
         std::ranges::all_of(heads, is_head) && std::ranges::all_of(all, is_embedding);
}

// As a weight: the runtime's products are slow with weights of uint8.
void quantize_shared_table(OperatorEncoder& e, const std::string& table) {
  e.weight(table, e.options().weight_type, {});
}

// The codes that the embedding reads, turned; the runtime turns them once.
bool encode_turned_table(OperatorEncoder& e, const Node& n) {
  quantize_shared_table(e, n.inputs[0]);
  return encode_moved(e, n);
}

// A constant, or a shared table that was turned.
bool is_weight(const OperatorEncoder& e, const std::string& b) {
  if (e.initializer(b)) return true;
  if (e.options().compat_onnxruntime) return false;
  const Node* source = e.index().edges.producer(b);
  return source && is_transpose(*source) && e.initializer(source->inputs[0]) && e.find(b);
}

QuantizedTensor activation_of(OperatorEncoder& e, const std::string& tensor) {
  return e.options().per_token ? e.rows(tensor) : e.activation(tensor);
}

bool encode_matmul(OperatorEncoder& e, const Node& n) {
  const std::string &a = n.inputs[0], &b = n.inputs[1];
  if (!e.is_float(a) && !e.is_float(b)) return false;
  const bool by_weight = is_weight(e, b);
  if (!by_weight && is_excluded_product(e, b)) return false;
  if (!e.quantizable(a) || !e.quantizable(b)) return e.deviate("D12"), false;
  if (!e.is_float(a) && !e.is_float(n.outputs[0])) e.deviate("D47");
  if (e.options().per_token && (!by_weight || e.initializer(a))) return false;
  QuantizedTensor x = activation_of(e, a);
  const bool is_turned = by_weight && !e.initializer(b);
  if (is_turned) e.deviate("D60");
  const QuantizedTensor weight = is_turned ? *e.find(b) : e.weight(b, e.options().weight_type, column_axis(e, b));
  emit_product(e, n, {x, weight}, n.outputs[0]);
  return true;
}

bool encode_conv(OperatorEncoder& e, const Node& n) {
  if (!e.is_float(n.inputs[0]) || e.options().per_token) return false;
  bool has_bias = n.inputs.size() > 2 && !n.inputs[2].empty();
  const Tensor* filter = e.initializer(n.inputs[1]);
  if (!e.quantizable(n.inputs[1]) || (has_bias && !filter)) return e.deviate("D12"), false;
  QuantizedTensor x = e.activation(n.inputs[0]);
  Operands operands{x, e.weight(n.inputs[1], e.options().weight_type, {})};
  const std::string& y = n.outputs[0];
  if (!has_bias) return emit_integer(e, n, "ConvInteger", operands, y), true;
  std::string scaled = e.fresh(y + "quant_scaled_output"), shaped = e.fresh(y + "_bias_reshape_output");
  emit_integer(e, n, "ConvInteger", operands, scaled);
  std::vector<int64_t> shape(filter->dims().size(), 1);
  shape[1] = -1;
  int64_t rank = static_cast<int64_t>(shape.size());
  e.read_float(n.inputs[2]);
  std::string dims = e.add_initializer(y + "_bias_reshape_shape", int64_tensor({rank}, std::move(shape)));
  e.emit({"", "Reshape", "", {n.inputs[2], dims}, {shaped}, {}, {}});
  e.emit({y + "_bias_add", "Add", "", {scaled, shaped}, {y}, {}, {}});
  return true;
}

// y = x * B of a dense Gemm; B may lie transposed in the file.
void emit_dense(OperatorEncoder& e, const Node& n, const std::string& y) {
  const std::string& b = n.inputs[1];
  const Tensor* value = e.initializer(b);
  DataType type = e.options().weight_type;
  Node product{n.name.empty() ? "" : n.name + "_MatMul", "MatMul", "", {}, {}, {}, {}};
  QuantizedTensor x = activation_of(e, n.inputs[0]);
  if (n.int_attribute("transB", 0) == 0) {
    emit_product(e, product, {x, e.weight(b, type, column_axis(e, b))}, y);
    return;
  }
  std::optional<int64_t> axis;
  std::vector<int64_t> params;
  if (e.options().per_channel) axis = 0, params.push_back(value->dims()[0]);
  if (e.index().read_count(b) > 1) e.deviate("D50");
  emit_product(e, product, {x, e.transposed_weight(b, *value, e.rule_of(type, axis, true), value->dims(), params)}, y);
}

bool is_dense(const Node& n) {
  return n.float_attribute("alpha", 1) == 1 && n.float_attribute("beta", 1) == 1 && n.int_attribute("transA", 0) == 0;
}

// A dense Gemm is a MatMul and an Add. Other factors and a transposed A stay float.
bool encode_gemm(OperatorEncoder& e, const Node& n) {
  const std::string& b = n.inputs[1];
  if (!is_dense(n)) return false;
  if (e.options().per_token && (!e.initializer(b) || e.initializer(n.inputs[0]))) return false;
  bool constant_or_plain = e.initializer(b) || (!is_excluded_product(e, b) && n.int_attribute("transB", 0) == 0);
  bool is_float = e.is_float(n.inputs[0]) || e.is_float(b);
  if (!constant_or_plain || !is_float || !e.quantizable(n.inputs[0]) || !e.quantizable(b))
    return e.deviate("D42"), false;
  bool has_bias = n.inputs.size() > 2 && !n.inputs[2].empty();
  bool type_known = e.is_float(n.inputs[0]) || (!has_bias && e.is_float(n.outputs[0]));
  if (!e.options().include.empty() && !n.name.empty()) e.deviate("D42");  // there it has another name by then
  else if (!type_known) e.deviate("D47");
  if (n.inputs.size() > 2 && !has_bias) e.deviate("D12");
  if (!has_bias) return emit_dense(e, n, n.outputs[0]), true;
  std::string product = e.fresh(n.outputs[0] + "_MatMul");
  emit_dense(e, n, product);
  e.ensure_float(n.inputs[2]);
  e.emit({n.name.empty() ? "" : n.name + "_Add", "Add", "", {product, n.inputs[2]}, n.outputs, {}, {}});
  return true;
}

// W or R: [directions, 4 * hidden, inputs], stored as [directions, inputs, 4 * hidden].
QuantizedTensor lstm_weight(OperatorEncoder& e, const std::string& name, const Tensor& value) {
  const auto& dims = value.dims();
  WeightRule rule = e.rule_of(DataType::kInt8, 0, true);
  if (!rule.symmetric) e.deviate("D48");  // the operator takes no zero point but 0
  rule.symmetric = true;
  if (!e.options().per_channel) return e.transposed_weight(name, value, rule, dims, {dims[0]});
  Tensor rows = value.reshaped({dims[0] * dims[1], dims[2]});
  return e.transposed_weight(name, rows, rule, dims, {dims[0], dims[1]});
}

bool encode_lstm(OperatorEncoder& e, const Node& n) {
  constexpr size_t kInputs = 8;
  if (!e.is_float(n.inputs[0]) || e.options().per_token) return false;
  const Tensor *input = e.initializer(n.inputs[1]), *recurrence = e.initializer(n.inputs[2]);
  for (const Tensor* t : {input, recurrence})
    if (!t || t->type() != DataType::kFloat || t->dims().size() != 3) return false;
  // The quantized operator knows the first layout alone.
  if (n.int_attribute("layout", 0) != 0) return e.deviate("D28"), false;
  for (const auto& name : {n.inputs[1], n.inputs[2]})
    if (e.index().read_count(name) > 1) e.deviate("D43");
  QuantizedTensor W = lstm_weight(e, n.inputs[1], *input), R = lstm_weight(e, n.inputs[2], *recurrence);
  std::vector<std::string> inputs = n.inputs;
  inputs.resize(kInputs);
  inputs[1] = inputs[2] = "";
  e.ensure_float(n.inputs[0]);
  for (const auto& name : inputs) e.read_float(name);
  inputs[1] = W.codes, inputs[2] = R.codes;
  for (const auto& name : {W.scale, W.zero_point, R.scale, R.zero_point}) inputs.push_back(name);
  Node node = quantized_node(n, "DynamicQuantizeLSTM", std::move(inputs), n.outputs);
  std::erase_if(node.attributes, [](const Attribute& a) { return a.name == "layout"; });
  e.emit(std::move(node));
  return true;
}

bool encode_attention(OperatorEncoder& e, const Node& n) {
  constexpr size_t kBias = 2, kMask = 3, kPast = 4;
  if (n.attribute("qkv_hidden_sizes") || e.options().per_token) return false;
  for (size_t i = kPast + 1; i < n.inputs.size(); ++i)  // the quantized operator has no such inputs
    if (!n.inputs[i].empty()) return e.deviate("D44"), false;
  if (n.inputs.size() <= kBias || n.inputs[kBias].empty()) return e.deviate("D44"), false;
  if (!e.quantizable(n.inputs[0]) || !e.quantizable(n.inputs[1])) return e.deviate("D12"), false;
  auto input = [&](size_t i) {
    std::string name = i < n.inputs.size() ? n.inputs[i] : "";
    e.read_float(name);
    return name;
  };
  QuantizedTensor x = e.activation(n.inputs[0]);
  QuantizedTensor weight = e.weight(n.inputs[1], e.options().weight_type, column_axis(e, n.inputs[1]));
  e.emit(quantized_node(n, "QAttention",
                        {x.codes, weight.codes, input(kBias), x.scale, weight.scale, input(kMask), x.zero_point,
                         weight.zero_point, input(kPast)},
                        n.outputs));
  return true;
}

using RuleFunction = bool (*)(OperatorEncoder&, const Node&);
const std::unordered_map<std::string, RuleFunction>& rules() {
  static const std::unordered_map<std::string, RuleFunction> kRules{
      {"Conv", encode_conv},           {"MatMul", encode_matmul},
      {"Gemm", encode_gemm},           {"LSTM", encode_lstm},
      {"Attention", encode_attention}, {"Gather", encode_gather},
      {"Transpose", encode_moved},     {"EmbedLayerNormalization", encode_embed_layer_norm}};
  return kRules;
}

}  // namespace

bool encode_dynamic_node(OperatorEncoder& e, const Node& n, const LayerSet& layers) {
  if (turns_shared_table(e, n, layers)) return encode_turned_table(e, n);
  if (is_gather(n) && e.initializer(n.inputs[0]) &&
      std::ranges::any_of(e.index().edges.readers(n.inputs[0]),
                          [&](const Node* reader) { return turns_shared_table(e, *reader, layers); }))
    quantize_shared_table(e, n.inputs[0]);
  auto rule = rules().find(n.op_type);
  if (rule == rules().end() || n.inputs.empty()) return false;
  if (is_selected(e, n, layers)) {
    e.note_half(n.inputs[0]);
    return rule->second(e, n);
  }
  if (is_gemm(n) && is_dense(n)) e.deviate("D42");
  return false;
}

}  // namespace seqto::internal
