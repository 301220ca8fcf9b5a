#include "quantization/encode/operator_encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/bodies.h"
#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/plan/layer_names.h"

namespace seqto::internal {
namespace {

bool is_signed(DataType t) { return t == DataType::kInt8 || t == DataType::kInt16; }

// Whether a per-tensor reader, or one that wants this axis, can take it.
bool fits(const QuantizedTensor& q, std::optional<int64_t> axis) {
  return q.params.type != DataType::kInt32 && (!q.params.axis || q.params.axis == axis);
}
// Codes in the weight's type are no activation in another: the runtime has no operators for the mixture.
bool fits_activation(const QuantizedTensor& q, DataType type) { return fits(q, {}) && q.params.type == type; }

}  // namespace

OperatorEncoder::OperatorEncoder(const Model& model, const GraphView& index, const OperatorContext& context,
                                 OperatorEncoder* parent)
    : model_(model), index_(index), context_(context), parent_(parent), options_(&context.options.common()) {
  // Constants of bodies may have equal names.
  if (parent) scope_ = fmt::format("{}{}/{}:", parent->scope_, parent->layer_, parent->bodies_++);
  for (const ValueInfo& v : model.graph.inputs) {
    taken_.insert(v.name);
    if (!index.is_initializer(v.name)) available_.insert(v.name);
  }
  for (const Initializer& i : model.graph.initializers) taken_.insert(i.name);
  for (const Node& n : model.graph.nodes) taken_.insert(n.outputs.begin(), n.outputs.end());
}

Encoding OperatorEncoder::run(const Rule& rule) {
  Graph graph = model_.graph;
  if (sort_nodes(graph)) deviate("D29");
  for (Node& node : graph.nodes) {
    if (options().enable_subgraph) encode_bodies(node, rule);
    layer_ = node.name;
    options_ = &context_.options.of(layer_);
    if (!rule(*this, node)) emit_float(node);
  }
  layer_.clear();
  options_ = &context_.options.common();
  for (const ValueInfo& v : graph.outputs) ensure_float(v.name);
  encode_constants();
  result_.graph = std::move(graph_);
  return std::move(result_);
}

// What a body reads from around it is quantized around it, once for all its readers.
void OperatorEncoder::encode_bodies(Node& node, const Rule& rule) {
  for (Attribute& a : node.attributes) {
    const auto* opaque = std::get_if<OpaqueAttribute>(&a.value);
    if (!opaque) continue;
    std::vector<Model> bodies = parse_bodies(*opaque, model_.opsets);
    for (Model& body : bodies) {
      GraphView index(body);
      Encoding encoding = OperatorEncoder(body, index, context_, this).run(rule);
      body.graph = context_.write_body(body.graph, encoding);
      result_.add(std::move(encoding));
    }
    if (!bodies.empty()) a.value = with_bodies(*opaque, bodies);
  }
}

// --- questions

bool OperatorEncoder::is_local(const std::string& tensor) const { return !parent_ || taken_.contains(tensor); }

bool OperatorEncoder::is_float(const std::string& tensor) const {
  if (!is_local(tensor)) return parent_->is_float(tensor);
  if (index_.dequantized.contains(tensor)) return true;
  auto it = index_.types.find(tensor);
  return it != index_.types.end() && it->second == DataType::kFloat;
}

void OperatorEncoder::note_half(const std::string& tensor) {
  auto it = index_.types.find(tensor);
  if (it != index_.types.end() && it->second == DataType::kFloat16) deviate("D17");
}

const Tensor* OperatorEncoder::initializer(const std::string& tensor) const {
  if (!is_local(tensor)) return parent_->initializer(tensor);
  auto it = index_.initializers.find(tensor);
  return it == index_.initializers.end() ? nullptr : it->second;
}

const QuantizedTensor* OperatorEncoder::find(const std::string& tensor) const {
  return is_local(tensor) ? find_here(tensor) : parent_->find(tensor);
}

const QuantizedTensor* OperatorEncoder::find_here(const std::string& tensor) const {
  auto it = values_.find(tensor);
  return it == values_.end() ? nullptr : &it->second;
}

bool OperatorEncoder::quantizable(const std::string& tensor) const {
  if (!is_local(tensor)) return parent_->quantizable(tensor);
  if (const Tensor* value = initializer(tensor)) return value->type() == DataType::kFloat && value->element_count() > 0;
  if (const QuantizedTensor* q = find(tensor); q && fits(*q, {})) return true;
  auto type = index_.types.find(tensor);
  bool other_type = type != index_.types.end() && type->second != DataType::kFloat &&
                    type->second != DataType::kUndefined && !index_.dequantized.contains(tensor);
  return !other_type && !tensor.empty() && (!context_.ranges || context_.ranges->find(tensor));
}

bool lists_op_type(const QuantizeOptions& options, Scheme scheme, const Node& n) {
  const auto& types = options.op_types.empty() ? default_op_types(scheme) : options.op_types;
  auto listed = [&](std::string_view type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  bool dense = scheme == Scheme::kInt8Dynamic && is_gemm(n) && listed("MatMul");
  return dense || listed(n.op_type);
}

std::optional<RealBounds> bounds_of(const QuantizedTensor& tensor) {
  const QuantParams& p = tensor.params;
  if (p.scale.size() != 1 || p.axis || p.type == DataType::kInt32) return {};
  return real_bounds(p);
}

// --- quantized forms

WeightRule OperatorEncoder::rule_of(DataType type, std::optional<int64_t> axis, bool as_weight) const {
  const QuantizeOptions& o = options();
  // onnxruntime goes by the type, not by the use: a constant operand in the weight's type follows the weight's rule.
  bool weight_rule = as_weight || type == o.weight_type;
  return {.type = type,
          .symmetric = weight_rule ? o.symmetric_weights.value_or(is_signed(type)) : o.symmetric_activations,
          .reduce_range = as_weight && o.reduce_range,
          .min_real_range = o.min_real_range,
          .axis = axis,
          .bounds = {},
          .clipping = as_weight && is_static() ? o.weight_clipping : WeightClipping::kNone,
          .power_of_two = o.power_of_two_scales && is_static(),
          .compat_onnxruntime = o.compat_onnxruntime};
}

QuantizedTensor OperatorEncoder::names_for(const std::string& tensor, QuantParams params) {
  return {{fresh(tensor + "_quantized"), fresh(tensor + "_scale"), fresh(tensor + "_zero_point")}, std::move(params)};
}

QuantizedTensor& OperatorEncoder::constant(const std::string& tensor, const Tensor& value, const WeightRule& rule,
                                           bool as_weight) {
  std::string key = tensor;
  if (auto it = values_.find(key); it != values_.end()) {
    const QuantParams& known = it->second.params;
    const bool suits = as_weight ? fits(it->second, rule.axis) : fits_activation(it->second, rule.type);
    const bool too_wide = rule.reduce_range && !rule.compat_onnxruntime && !known.reduced;
    if (suits && !too_wide) return it->second;
    deviate(known.type == DataType::kInt32 ? "D9" : suits ? "D57" : "D18");
    key = fmt::format("{}\n{} {} {}", tensor, static_cast<int>(rule.type), rule.axis.value_or(-1), rule.reduce_range);
    if (auto other = values_.find(key); other != values_.end()) return other->second;
  }
  QuantizedTensor& q = values_[key] = names_for(tensor, context_.cache.params(scope_ + tensor, value, rule));
  for (const std::string& id : q.params.deviations) deviate(id);
  std::vector<int64_t> param_dims;
  if (rule.axis) param_dims.push_back(static_cast<int64_t>(q.params.scale.size()));
  constants_.push_back({&q, scope_ + tensor, value, std::move(param_dims), {}});
  return q;
}

const QuantizedTensor& OperatorEncoder::activation(const std::string& tensor) {
  if (!is_local(tensor)) return parent_->activation(tensor);
  if (const Tensor* value = initializer(tensor))
    return constant(tensor, *value, rule_of(context_.activation_type(), {}, false), false);
  auto it = values_.find(tensor);
  if (it == values_.end()) return quantize_here(tensor);
  bool has_range = !is_static() || context_.ranges->find(tensor);
  if (fits_activation(it->second, context_.activation_type()) || !has_range) return it->second;
  deviate("D18");
  return quantize_here(tensor);
}

QuantizedTensor& OperatorEncoder::weight(const std::string& tensor, DataType type, std::optional<int64_t> axis) {
  if (!is_local(tensor)) return parent_->weight(tensor, type, axis);
  if (const Tensor* value = initializer(tensor)) return constant(tensor, *value, rule_of(type, axis, true), true);
  return const_cast<QuantizedTensor&>(activation(tensor));
}

QuantizedTensor& OperatorEncoder::filter(const std::string& tensor) {
  if (!is_local(tensor)) return parent_->filter(tensor);
  WeightRule rule = rule_of(DataType::kInt8, 0, true);
  if (!rule.symmetric && !options().compat_onnxruntime) {
    rule.symmetric = true;
    deviate("D67");
  }
  return constant(tensor, *initializer(tensor), rule, true);
}

const QuantizedTensor& OperatorEncoder::transposed_weight(const std::string& tensor, const Tensor& value,
                                                          const WeightRule& rule, std::vector<int64_t> dims,
                                                          std::vector<int64_t> param_dims) {
  if (!is_local(tensor)) return parent_->transposed_weight(tensor, value, rule, dims, param_dims);
  std::string key = fmt::format("{}{}\ntransposed {} {} {}", scope_, tensor, rule.axis.value_or(-1), rule.reduce_range,
                                fmt::join(value.dims(), " "));
  if (auto it = values_.find(key); it != values_.end()) return it->second;
  QuantizedTensor& q = values_[key] = names_for(tensor, context_.cache.params(key, value, rule));
  for (const std::string& id : q.params.deviations) deviate(id);
  constants_.push_back({&q, key, value, std::move(param_dims), std::move(dims)});
  return q;
}

// A QuantizeLinear with parameters from the range, or one that finds them at run time.
const QuantizedTensor& OperatorEncoder::quantize_here(const std::string& tensor) {
  ensure_float(tensor);
  if (!is_static()) {
    QuantizedTensor q = names_for(tensor, {context_.activation_type(), {}, {}, {}});
    emit({tensor + "_QuantizeLinear", "DynamicQuantizeLinear", "", {tensor}, {q.codes, q.scale, q.zero_point}, {}, {}});
    return values_[tensor] = std::move(q);
  }
  QuantizedTensor q = *output(tensor);
  emit({tensor + "_QuantizeLinear", "QuantizeLinear", "", {tensor, q.scale, q.zero_point}, {q.codes}, {}, {}});
  return values_[tensor] = std::move(q);
}

// Written once for the graph.
std::string OperatorEncoder::row_constant(const std::string& name, Tensor value) {
  const auto [it, fresh] = row_constants_.try_emplace(name);
  if (fresh) it->second = add_initializer(name, std::move(value));
  return it->second;
}

std::string OperatorEncoder::row_one() { return row_constant("row_one", float_tensor({}, {1})); }

// DynamicQuantizeLinear has one scale for the whole tensor, so the codes of a row depend on the other rows. Here
// row = scale * (codes - 128), scale = max |row| / 127.
const QuantizedTensor& OperatorEncoder::rows(const std::string& tensor) {
  if (!is_local(tensor)) return parent_->rows(tensor);
  const std::string key = tensor + "\nrows";
  if (const auto it = values_.find(key); it != values_.end()) return it->second;
  ensure_float(tensor);
  QuantizedTensor q{{fresh(tensor + "_quantized"), fresh(tensor + "_scale"), ""}, {DataType::kUint8, {}, {}, {}}};
  q.zero_point = row_constant("row_zero_point", Tensor::from<uint8_t>(DataType::kUint8, {}, {128}));
  const std::string step = row_constant("row_step", float_tensor({}, {1.0f / 127}));
  const std::string least = row_constant("row_least", float_tensor({}, {1e-30f}));  // of a row of zeros
  const std::string size = fresh(tensor + "_abs"), largest = fresh(tensor + "_largest");
  const std::string scale = fresh(tensor + "_scale_or_zero"), scaled = fresh(tensor + "_scaled");
  const auto made = [&](const std::string& op_type, std::vector<std::string> inputs, const std::string& output) {
    return Node{output + "_" + op_type, op_type, "", std::move(inputs), {output}, {}, {}};
  };
  emit(made("Abs", {tensor}, size));
  Node reduced = made("ReduceMax", {size}, largest);
  if (index_.opset < 18) reduced.set_attribute({"axes", std::vector<int64_t>{-1}});
  else reduced.inputs.push_back(row_constant("row_axis", int64_tensor({1}, {-1})));
  emit(std::move(reduced));
  emit(made("Mul", {largest, step}, scale));
  emit(made("Max", {scale, least}, q.scale));
  emit(made("Div", {tensor, q.scale}, scaled));
  emit(made("QuantizeLinear", {scaled, row_one(), q.zero_point}, q.codes));
  return values_[key] = std::move(q);
}

std::optional<QuantizedTensor> OperatorEncoder::output(const std::string& tensor) {
  const Range* range = context_.ranges->find(tensor);
  if (!range) return {};
  QuantParams params = activation_params(*range, options());
  return output(tensor, params.scale[0], params.zero_point[0]);
}

QuantizedTensor OperatorEncoder::output(const std::string& tensor, float scale, int32_t zero_point) {
  QuantizedTensor q = names_for(tensor, {context_.activation_type(), {scale}, {zero_point}, {}});
  result_.add_tensor(tensor, q.params).names = q;
  graph_.order.insert(graph_.order.end(), {q.scale, q.zero_point});
  return q;
}

QuantizedTensor& OperatorEncoder::fit_to_bias(const std::string& tensor, QuantizedTensor& weight,
                                              const std::string& bias_name, const Tensor& bias,
                                              const QuantizedTensor& input) {
  const QuantizeOptions& o = options();
  const Tensor* value = initializer(tensor);
  QuantParams params = weight.params;
  bool centred = std::all_of(params.zero_point.begin(), params.zero_point.end(), [](int32_t z) { return z == 0; });
  bool applies = o.adjust_weight_scale_for_bias && o.weight_type == DataType::kInt8 && centred &&
                 params.axis.has_value() == o.per_channel && (!value || params.type == DataType::kInt8);
  if (!applies || !adjust_weight_scale_for_bias(to_floats(bias), input.params.scale[0], params)) return weight;
  if (values_.contains(bias_name)) deviate("D9");  // there its first reader's codes are taken before this is asked
  if (!value) return deviate("D10"), weight;  // there the bias goes by a scale that the computed weight does not have
  if (!biased_.contains(weight.codes)) {
    weight.params = std::move(params);
    return weight;
  }
  deviate("D10");
  QuantizedTensor& copy = values_[fresh(tensor + "_copy")] = names_for(tensor, std::move(params));
  std::vector<int64_t> dims;
  if (copy.params.axis) dims.push_back(static_cast<int64_t>(copy.params.scale.size()));
  constants_.push_back({&copy, scope_ + tensor, *value, std::move(dims), {}});
  return copy;
}

std::string OperatorEncoder::bias(const std::string& tensor, const Tensor& value, const QuantizedTensor& input,
                                  const QuantizedTensor& weight) {
  QuantizedBias q = quantize_bias(to_floats(value), input.params.scale[0], weight.params.scale);
  biased_.insert(weight.codes);
  QuantParams params{DataType::kInt32, q.scale, std::vector<int32_t>(q.scale.size(), 0), {}};
  if (q.scale.size() > 1) params.axis = 0;
  auto known = values_.find(tensor);
  if (known != values_.end() && known->second.params.type == DataType::kInt32 && known->second.params.scale == q.scale)
    return known->second.codes;
  QuantizedTensor names{
      {fresh(tensor + "_quantized"), fresh(tensor + "_quantized_scale"), fresh(tensor + "_quantized_zero_point")},
      params};
  result_.biases.push_back({.name = names.codes,
                            .layer = layer_,
                            .scale = q.scale,
                            .values = Tensor::from(DataType::kInt32, value.dims(), std::move(q.values)),
                            .names = names});
  graph_.order.insert(graph_.order.end(), {names.codes, names.scale, names.zero_point});
  if (known != values_.end()) {  // the first reader's codes are of another scale
    deviate("D9");
    return names.codes;
  }
  return (values_[tensor] = std::move(names)).codes;
}

// --- nodes

void OperatorEncoder::emit(Node node) {
  available_.insert(node.outputs.begin(), node.outputs.end());
  graph_.nodes.push_back(std::move(node));
}

void OperatorEncoder::emit_float(const Node& found) {
  Node node = found;
  if (fuses_channels_of_the_left(node)) {
    deviate("D16");
    node.inputs[0] = add_initializer(node.inputs[0] + "_float", *initializer(node.inputs[0]));
  }
  for (const auto& name : node.inputs) ensure_float(name);
  size_t before = graph_.nodes.size();
  for_each_read(node, [&](const std::string& name) { read_float(name); });
  if (graph_.nodes.size() > before) deviate("D33");
  emit(node);
}

// The runtime makes one operator of a MatMul and the DequantizeLinears before it, which takes no scales by channel on
// the left.
bool OperatorEncoder::fuses_channels_of_the_left(const Node& node) const {
  if (!is_matmul(node) || node.inputs.size() < 2 || !initializer(node.inputs[0])) return false;
  const QuantizedTensor* left = find(node.inputs[0]);
  return left && left->params.axis && find(node.inputs[1]);
}

void OperatorEncoder::ensure_float(const std::string& tensor) {
  if (tensor.empty() || available_.contains(tensor)) return;
  if (!is_local(tensor)) {
    if (parent_->needs_dequantizing(tensor)) deviate("D33");
    parent_->ensure_float(tensor);
    return;
  }
  auto it = values_.find(tensor);
  if (it == values_.end()) return;
  const QuantizedTensor& q = it->second;
  if (q.params.axis && index_.opset < 13) {  // DequantizeLinear has no axis yet; the float initializer stays
    deviate("D16");
    return;
  }
  Node node{tensor + "_DequantizeLinear", "DequantizeLinear", "", {q.codes, q.scale, q.zero_point}, {tensor}, {}, {}};
  if (q.params.axis) node.set_attribute({"axis", *q.params.axis});
  emit(std::move(node));
}

void OperatorEncoder::read_float(const std::string& tensor) {
  if (!initializer(tensor)) ensure_float(tensor);
}

bool OperatorEncoder::needs_dequantizing(const std::string& tensor) const {
  return !available_.contains(tensor) && values_.contains(tensor);
}

void OperatorEncoder::define(const std::string& tensor, QuantizedTensor quantized) {
  values_[tensor] = std::move(quantized);
}

std::string OperatorEncoder::add_initializer(const std::string& name, Tensor tensor) {
  graph_.new_initializers.push_back({fresh(name), std::move(tensor)});
  return graph_.order.emplace_back(graph_.new_initializers.back().name);
}

std::string OperatorEncoder::scale_product(const std::string& a, const std::string& b, const std::string& node_name) {
  std::string key = node_name.empty() ? a + "_" + b : "";
  auto known = scale_products_.find(key);
  if (!key.empty() && known != scale_products_.end()) return known->second;
  std::string name = node_name.empty() ? key + "_mul" : node_name + "_scales_mul", product = fresh(name + ":0");
  emit({name, "Mul", "", {a, b}, {product}, {}, {}});
  if (!key.empty()) scale_products_[key] = product;
  return product;
}

std::string OperatorEncoder::fresh(const std::string& name) {
  auto is_free = [&](const std::string& n) {
    for (const OperatorEncoder* e = this; e; e = e->parent_)
      if (e->taken_.contains(n)) return false;
    return true;
  };
  std::string free = name;
  for (int k = 1; !is_free(free); ++k) free = fmt::format("{}_{}", name, k);
  for (OperatorEncoder* e = this; e; e = e->parent_) e->taken_.insert(free);
  return free;
}

// What is read in the end; in the file constants come first.
void OperatorEncoder::encode_constants() {
  std::unordered_set<std::string> read;
  for (const Node& n : graph_.nodes) for_each_read(n, [&](const std::string& name) { read.insert(name); });
  const std::unordered_set<std::string> own(graph_.order.begin(), graph_.order.end());  // not those of bodies
  std::erase_if(result_.tensors,
                [&](const EncodedTensor& t) { return own.contains(t.names.scale) && !read.contains(t.names.scale); });
  std::vector<std::string> order;
  for (const Constant& c : constants_) {
    const QuantizedTensor& q = *c.quantized;
    if (!read.contains(q.codes) && !read.contains(q.scale)) continue;
    // Behind the name: what tells turned ones apart.
    EncodedTensor& tensor = result_.add_tensor(c.source.substr(0, c.source.find('\n')), q.params);
    tensor.codes = c.transposed_dims.empty()
                       ? context_.cache.quantized(c.source, c.value, q.params)
                       : context_.cache.transposed(c.source, c.value, q.params, c.transposed_dims);
    tensor.names = q;
    tensor.param_dims = c.param_dims;
    order.insert(order.end(), {q.codes, q.scale, q.zero_point});
  }
  graph_.order.insert(graph_.order.begin(), order.begin(), order.end());
}

Node quantized_node(const Node& from, const std::string& op_type, std::vector<std::string> inputs,
                    std::vector<std::string> outputs, const std::string& domain) {
  std::string name = from.name.empty() ? "" : from.name + kQuantSuffix;
  return {std::move(name), op_type, domain, std::move(inputs), std::move(outputs), from.attributes, {}};
}

}  // namespace seqto::internal
