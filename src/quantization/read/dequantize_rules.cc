// The float form of every quantized operator.
#include <fmt/format.h>

#include "model/op_traits.h"
#include "quantization/arithmetic/fold_constant.h"
#include "quantization/plan/layer_names.h"
#include "quantization/read/dequantizer.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

std::string without_quantized(const std::string& name) {
  std::string base = without_suffix(name, "_quantized");
  return base == name ? name + "_float" : base;
}

std::string at(const Node& n, size_t i) { return i < n.inputs.size() ? n.inputs[i] : ""; }

Coded output_of(const Node& n, size_t scale, size_t zero_point) {
  return {n.outputs[0], at(n, scale), at(n, zero_point)};
}

[[noreturn]] void no_form(const Node& n, std::string_view why) {
  throw Error(Code::kInvalidInput,
              fmt::format("[dequantize] {} '{}' found, {}; an operator with a float form was expected; dequantize the "
                          "model with the tool that wrote it",
                          n.op_type, n.name, why));
}

void drop_attribute(Node& n, std::string_view name) {
  std::erase_if(n.attributes, [&](const Attribute& a) { return a.name == name; });
}

}  // namespace

const std::unordered_map<std::string_view, Dequantizer::Rule>& Dequantizer::rules() {
  using D = Dequantizer;
  static const std::unordered_map<std::string_view, Rule> kRules{
      {"QuantizeLinear", &D::quantize_linear},
      {"DequantizeLinear", &D::dequantize_linear},
      {"DynamicQuantizeLinear", &D::dynamic_quantize_linear},
      {"QLinearConv", &D::qlinear_conv},
      {"QLinearMatMul", &D::qlinear_matmul},
      {"QGemm", &D::qgemm},
      {"QLinearAdd", &D::qlinear_binary},
      {"QLinearMul", &D::qlinear_binary},
      {"QLinearSigmoid", &D::qlinear_unary},
      {"QLinearLeakyRelu", &D::qlinear_unary},
      {"QLinearAveragePool", &D::qlinear_unary},
      {"QLinearGlobalAveragePool", &D::qlinear_unary},
      {"QLinearSoftmax", &D::qlinear_unary},
      {"QLinearReduceMean", &D::qlinear_unary},
      {"QLinearConcat", &D::qlinear_concat},
      {"QLinearWhere", &D::qlinear_where},
      {"MatMulInteger", &D::integer_product},
      {"MatMulIntegerToFloat", &D::scaled_product},
      {"ConvInteger", &D::integer_product},
      {"DynamicQuantizeLSTM", &D::dynamic_lstm},
      {"QAttention", &D::qattention},
      {"QEmbedLayerNormalization", &D::qembedding},
      {"MatMulNBits", &D::matmul_nbits},
      {"GatherBlockQuantized", &D::gather_blocks},
  };
  return kRules;
}

// --- operands

std::string Dequantizer::operand(const Node& n, size_t codes, size_t scale, size_t zero_point, int64_t axis) {
  return operand({at(n, codes), at(n, scale), at(n, zero_point)}, axis, 0);
}

std::string Dequantizer::operand(const Coded& coded, int64_t axis, int64_t block) {
  if (auto it = float_of_.find(coded.codes); it != float_of_.end()) return it->second;
  if (auto it = weights_.find(coded.codes + "\n" + coded.scale); it != weights_.end()) return it->second;
  const Tensor *codes = tensor(coded.codes), *scale = tensor(coded.scale), *zero = tensor(coded.zero_point);
  if (codes && scale) {
    std::string otherwise;
    for (const Node* r : view_.edges.readers(coded.codes))
      if (is_dequantize(*r)) otherwise = r->outputs[0];
    std::string name =
        constant(without_quantized(coded.codes), otherwise, dequantized(*codes, {scale, zero, axis, block}));
    return weights_[coded.codes + "\n" + coded.scale] = name;
  }
  // Integers that come from outside, or with scales that are computed.
  std::string name = fresh(coded.codes + "_float");
  Node stays{name + "_DequantizeLinear", "DequantizeLinear", "", {coded.codes, coded.scale, coded.zero_point}, {name}};
  for (const Node* r : view_.edges.readers(coded.codes))
    if (is_dequantize(*r) && r->inputs[1] == coded.scale) stays.domain = r->domain, stays.attributes = r->attributes;
  add_node(std::move(stays));
  return float_of_[coded.codes] = name;
}

std::string Dequantizer::bias(const Node& n, size_t input, const std::string& input_scale,
                              const std::string& weight_scale, float factor) {
  std::string codes = at(n, input);
  if (codes.empty()) return "";
  const Tensor *values = tensor(codes), *a = tensor(input_scale), *b = tensor(weight_scale);
  if (!values || !a || !b) no_form(n, "with a bias that is computed at run time");
  std::string key = codes + "\n" + input_scale + "\n" + weight_scale;
  if (auto it = weights_.find(key); it != weights_.end()) return it->second;
  std::vector<float> scales;
  for (int64_t i = 0; i < b->element_count(); ++i)
    scales.push_back(static_cast<float>(element(*a, 0)) * static_cast<float>(element(*b, i)) * factor);
  Tensor scale = in_type(a->type(), {static_cast<int64_t>(scales.size())}, scales);
  int64_t last = static_cast<int64_t>(values->dims().size()) - 1;
  return weights_[key] = constant(without_quantized(codes), "", dequantized(*values, {&scale, nullptr, last, 0}));
}

// --- Q and DQ

void Dequantizer::quantize_linear(const Node& n) {
  ++pairs_;
  std::string name = resolved(n.inputs[0]);
  Coded coded = coded_.at(n.outputs[0]);
  float_of_[n.outputs[0]] = tensor(name) ? name : clamp(name, coded);
}

void Dequantizer::dequantize_linear(const Node& n) {
  ++pairs_;
  Coded coded{n.inputs[0], n.inputs[1], at(n, 2)};
  std::string name = operand(coded, n.int_attribute("axis", 1), n.int_attribute("block_size", 0));
  if (name == n.outputs[0]) return;
  if (view_.captured.contains(n.outputs[0]))  // a body reads it by this name
    add_node({n.name, "Identity", "", {name}, {n.outputs[0]}, {}, {}});
  else alias_[n.outputs[0]] = name;
}

void Dequantizer::dynamic_quantize_linear(const Node& n) { float_of_[n.outputs[0]] = resolved(n.inputs[0]); }

// --- integer operators with static scales

void Dequantizer::qlinear_conv(const Node& n) {
  std::vector<std::string> inputs{operand(n, 0, 1, 2), operand(n, 3, 4, 5, 0)};
  if (std::string b = bias(n, 8, at(n, 1), at(n, 4)); !b.empty()) inputs.push_back(b);
  emit(n, "Conv", inputs, output_of(n, 6, 7));
}

void Dequantizer::qlinear_matmul(const Node& n) {
  emit(n, "MatMul", {operand(n, 0, 1, 2, -2), operand(n, 3, 4, 5, -1)}, output_of(n, 6, 7));
}

void Dequantizer::qgemm(const Node& n) {
  int64_t axis = n.int_attribute("transB", 0) ? 0 : 1;
  std::vector<std::string> inputs{operand(n, 0, 1, 2), operand(n, 3, 4, 5, axis)};
  // The integer kernel multiplies the bias by alpha, too.
  if (std::string c = bias(n, 6, at(n, 1), at(n, 4), n.float_attribute("alpha", 1)); !c.empty()) inputs.push_back(c);
  emit(n, "Gemm", inputs, output_of(n, 7, 8));
}

void Dequantizer::qlinear_binary(const Node& n) {
  emit(n, n.op_type.substr(7), {operand(n, 0, 1, 2), operand(n, 3, 4, 5)}, output_of(n, 6, 7));
}

void Dequantizer::qlinear_unary(const Node& n) {
  if (n.int_attribute("channels_last", 0)) no_form(n, "with channels last");
  Node like = n;
  drop_attribute(like, "channels_last");
  drop_attribute(like, "opset");
  emit(like, n.op_type.substr(7), {operand(n, 0, 1, 2)}, output_of(n, 3, 4));
}

void Dequantizer::qlinear_concat(const Node& n) {
  std::vector<std::string> inputs;
  for (size_t i = 2; i + 2 < n.inputs.size(); i += 3) inputs.push_back(operand(n, i, i + 1, i + 2));
  emit(n, "Concat", inputs, output_of(n, 0, 1));
}

void Dequantizer::qlinear_where(const Node& n) {
  emit(n, "Where", {resolved(n.inputs[0]), operand(n, 1, 2, 3), operand(n, 4, 5, 6)}, output_of(n, 7, 8));
}

// --- dynamic: integer product -> Cast -> Mul by both scales (-> Add of a bias in the shape of channels)

void Dequantizer::integer_product(const Node& n) {
  const Edges& edges = view_.edges;
  auto only_reader = [&](const std::string& name, bool (*is)(const Node&)) -> const Node* {
    const auto& list = edges.readers(name);
    return list.size() == 1 && is(*list[0]) ? list[0] : nullptr;
  };
  const Node* cast = only_reader(n.outputs[0], is_cast);
  const Node* product = cast ? only_reader(cast->outputs[0], is_mul) : nullptr;
  const Node* scales = nullptr;
  if (product)
    for (const auto& name : product->inputs)
      if (const Node* other = edges.producer(name); other && other != cast) scales = other;
  if (const Node* rows = !scales && product ? only_reader(product->outputs[0], is_mul) : nullptr) {
    done_.insert({cast, product});
    return row_product(n, {n.inputs[1], at(*product, 1), at(n, 3)}, *rows);
  }
  if (!scales || !is_mul(*scales)) no_form(n, "without the Cast and Mul that give its scale");
  auto scale_for = [&](const std::string& codes) {
    auto it = coded_.find(codes);
    for (const auto& s : scales->inputs)
      if (it == coded_.end() ? tensor(s) != nullptr : s == it->second.scale) return s;
    return scales->inputs[1];
  };
  const bool conv = is_conv_integer(n);
  std::vector<std::string> inputs{operand({n.inputs[0], scale_for(n.inputs[0]), at(n, 2)}, -2, 0),
                                  operand({n.inputs[1], scale_for(n.inputs[1]), at(n, 3)}, conv ? 0 : -1, 0)};
  std::string output = product->outputs[0];
  done_.insert({cast, product, scales});
  dropped_.insert(scales->outputs[0]);
  const Node* add = conv ? only_reader(output, is_add) : nullptr;
  for (size_t i = 0; add && i < 2; ++i) {
    const Node* shaped = edges.producer(add->inputs[i]);
    if (!shaped || !is_reshape(*shaped) || !tensor(shaped->inputs[0])) continue;
    inputs.push_back(shaped->inputs[0]);
    dropped_.insert(shaped->outputs[0]);
    done_.insert({shaped, add});
    output = add->outputs[0];
    break;
  }
  emit(n, conv ? "Conv" : "MatMul", inputs, {output, "", ""});
}

void Dequantizer::scaled_product(const Node& n) {
  const auto& readers = view_.edges.readers(n.outputs[0]);
  if (readers.size() != 1 || !is_mul(*readers[0])) no_form(n, "without the Mul by scales of rows");
  row_product(n, {n.inputs[1], n.inputs[3], at(n, 5)}, *readers[0]);
}

// x / row_scale -> codes -> product of codes * w_scale -> Mul(row_scale): the product of x and the weight.
void Dequantizer::row_product(const Node& n, const Coded& weight, const Node& rows) {
  const Edges& edges = view_.edges;
  const Node* quantize = edges.producer(n.inputs[0]);
  const Node* scaled = quantize && is_quantize(*quantize) ? edges.producer(quantize->inputs[0]) : nullptr;
  const bool known = scaled && scaled->inputs.size() == 2 && std::ranges::count(rows.inputs, scaled->inputs[1]) == 1 &&
                     tensor(weight.scale);
  if (!known) no_form(n, "with scales of rows that nothing divides by before");
  const std::string x = scaled->inputs[0];
  dropped_.insert({scaled->outputs[0]});
  // Max, Mul, ReduceMax, Abs: what the scale is made of.
  constexpr int kMost = 5;
  std::string made = scaled->inputs[1];
  for (int i = 0; i < kMost && made != x; ++i) {
    const Node* maker = edges.producer(made);
    if (!maker || maker->inputs.empty()) no_form(n, "with scales of rows that are not made of them");
    dropped_.insert(made);
    made = maker->inputs[0];
  }
  done_.insert(&rows);
  emit(n, "MatMul", {resolved(x), operand(weight, -1, 0)}, {rows.outputs[0], "", ""});
}

void Dequantizer::dynamic_lstm(const Node& n) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < 8; ++i) inputs.push_back(resolved(at(n, i)));
  for (size_t k : {1, 2}) {  // [directions, inputs, 4 hidden] with scales of directions or of directions and rows
    const Tensor *codes = tensor(n.inputs[k]), *scale = tensor(at(n, 6 + 2 * k)), *zero = tensor(at(n, 7 + 2 * k));
    if (!codes || !scale) no_form(n, "with weights that are computed");
    auto dims = codes->dims();
    std::vector<float> values(static_cast<size_t>(codes->element_count()));
    bool rows = scale->element_count() > dims[0];
    for (int64_t i = 0; i < codes->element_count(); ++i) {
      int64_t direction = i / (dims[1] * dims[2]), s = rows ? direction * dims[2] + i % dims[2] : direction;
      double z = zero ? element(*zero, zero->element_count() == 1 ? 0 : s) : 0;
      values[static_cast<size_t>(i)] =
          static_cast<float>(element(*codes, i) - z) * static_cast<float>(element(*scale, s));
    }
    std::string key = n.inputs[k] + "\n";
    if (!weights_.contains(key))
      weights_[key] = constant(without_quantized(n.inputs[k]), "",
                               transposed(in_type(scale->type(), dims, std::move(values)), {0, 2, 1}));
    inputs[k] = weights_[key];
  }
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  add_float_twin(n, "LSTM", "", inputs);
}

void Dequantizer::qattention(const Node& n) {
  std::vector<std::string> inputs{operand(n, 0, 3, 6), operand(n, 1, 4, 7, 1), resolved(at(n, 2))};
  for (size_t i : {5, 8})
    if (!at(n, i).empty()) {
      inputs.resize(i == 5 ? 3 : 4);
      inputs.push_back(resolved(at(n, i)));
    }
  add_float_twin(n, "Attention", "com.microsoft", inputs);
}

void Dequantizer::qembedding(const Node& n) {
  std::vector<std::string> inputs{n.inputs[0], n.inputs[1]};
  for (size_t i = 0; i < 5; ++i) inputs.push_back(at(n, 2 + i).empty() ? "" : operand(n, 2 + i, 8 + i, 13 + i));
  if (!at(n, 7).empty()) inputs.push_back(n.inputs[7]);
  add_float_twin(n, "EmbedLayerNormalization", "com.microsoft", inputs);
}

// --- weights alone

void Dequantizer::matmul_nbits(const Node& n) {
  const Tensor *packed = tensor(at(n, 1)), *scales = tensor(at(n, 2));
  if (!packed || !scales || !at(n, 4).empty()) no_form(n, "with weights that are computed or permuted");
  std::string weight =
      constant(without_quantized(n.inputs[1]), "", unpacked_nbits(n, *packed, *scales, tensor(at(n, 3))));
  weights_[n.inputs[1] + "\n"] = weight;
  Node like = n;
  like.attributes.clear();
  if (at(n, 5).empty()) return emit(like, "MatMul", {resolved(n.inputs[0]), weight}, {n.outputs[0], "", ""});
  std::string product = fresh(n.outputs[0] + "_product");
  emit(like, "MatMul", {resolved(n.inputs[0]), weight}, {product, "", ""});
  add_node({n.name + "_bias", "Add", "", {product, n.inputs[5]}, {n.outputs[0]}, {}, {}});
}

void Dequantizer::gather_blocks(const Node& n) {
  std::string codes = at(n, 0);
  // A product may read the same codes in blocks.
  if (const Node* reshape = view_.edges.producer(codes); reshape && is_reshape(*reshape)) {
    if (view_.edges.uses(codes) == 1) dropped_.insert(codes);
    codes = reshape->inputs[0];
  }
  const Tensor *data = tensor(codes), *scales = tensor(at(n, 2)), *zero = tensor(at(n, 3));
  const bool is_packed = data && data->type() == DataType::kUint8;
  if (!data || !scales || (!is_packed && data->type() != DataType::kInt4 && data->type() != DataType::kUint4))
    no_form(n, "whose table is no constant of 4 or 8 bits");
  Node like = n;
  like.attributes.clear();
  like.set_attribute({"axis", n.int_attribute("gather_axis", 0)});
  const int64_t axis = n.int_attribute("quantize_axis", 1), block = n.int_attribute("block_size", 128);
  const std::string place = codes + "\n" + n.inputs[2];
  if (is_packed && !weights_.contains(place))
    weights_[place] = constant(without_quantized(codes), "", unpacked_rows(n, *data, {scales, zero, axis, block}));
  std::string table = operand({codes, n.inputs[2], at(n, 3)}, axis, block);
  emit(like, "Gather", {table, resolved(n.inputs[1])}, {n.outputs[0], "", ""});
}

// --- everything else reads float tensors instead of integers that stand for them

bool Dequantizer::unfold(const Node& n) {
  bool stored = is_cast(n) || is_bit_shift(n);
  std::vector<const Tensor*> inputs;
  for (const auto& name : n.inputs) {
    const Tensor* t = tensor(name);
    if (!t) return false;
    inputs.push_back(t);
    stored = stored || unfolded_.contains(name);
  }
  // Other constants (shapes, indices) are none of our business.
  if (!stored || inputs.empty() || (is_cast(n) && element_bits(inputs[0]->type()) > 16)) return false;
  auto result = fold_constant(n, inputs);
  if (!result) return false;
  const std::string& name = n.outputs[0];
  added_.push_back({name, *result});
  if (result->is_float()) weights_[name + "\n"] = name;
  unfolded_[name] = std::move(*result);
  return true;
}

void Dequantizer::other(const Node& n) {
  if (unfold(n)) return;
  Node node = n;
  bool coded = false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    auto known = coded_.find(n.inputs[i]);
    bool stands = float_of_.contains(n.inputs[i]);
    bool constant_code = !stands && known != coded_.end() && tensor(n.inputs[i]) && i == 0;
    // A Pad's value has the meaning of what it pads.
    bool value = is_pad(n) && i == 2 && coded && tensor(n.inputs[i]);
    if (value) {
      const Coded& meaning = coded_.at(n.inputs[0]);
      node.inputs[i] = operand({n.inputs[i], meaning.scale, meaning.zero_point}, 0, 0);
    } else if (stands || constant_code) {
      node.inputs[i] = stands ? float_of_.at(n.inputs[i]) : operand(known->second, 0, 0);
      coded = true;
    } else {
      node.inputs[i] = resolved(n.inputs[i]);
    }
  }
  if (!coded) return add_node(std::move(node));
  node.name = original_name(node.name);
  for (size_t i = 0; i < n.outputs.size(); ++i)
    if (auto it = coded_.find(n.outputs[i]); it != coded_.end()) {
      node.outputs[i] = float_name(n.outputs[i]);
      float_of_[n.outputs[i]] = node.outputs[i];
      taken_.insert(node.outputs[i]);
      note_range(node.outputs[i], it->second);
    }
  add_node(std::move(node));
}

}  // namespace seqto::internal
