#include "quantization/read/layer_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "model/op_traits.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/plan/code_types.h"
#include "quantization/plan/layer_names.h"

namespace seqto::internal {
namespace {

using Kind = InputForm::Kind;

constexpr int kLongestChain = 16;  // BitShift, Cast, Sub, Mul, Reshape ... between a stored weight and its layer

bool holds_codes(DataType t) { return is_code_type(t) || t == DataType::kFloat8e4m3fn; }

}  // namespace

LayerForms::LayerForms(const Model& model, const std::unordered_map<std::string, DataType>* types)
    : index_(model), types_(types) {
  for (const Node& n : model.graph.nodes) {
    names_.emplace(n.name, &n);
    if (!n.outputs.empty() && !n.inputs.empty()) find_codes(n);
  }
  for (const Node& n : model.graph.nodes) find_plumbing(n);
}

DataType LayerForms::zero_point_type(const Node& n, size_t input) const {
  auto it = input < n.inputs.size() ? index_.types.find(n.inputs[input]) : index_.types.end();
  return it == index_.types.end() ? DataType::kUint8 : it->second;
}

void LayerForms::find_codes(const Node& n) {
  if (const auto scale = output_scale(n)) {
    const auto given = static_cast<DataType>(n.int_attribute("output_dtype", 0));
    codes_[n.outputs[0]] = given == DataType::kUndefined ? zero_point_type(n, *scale + 1) : given;
  } else if (is_dynamic_quantize(n)) {
    codes_[n.outputs[0]] = DataType::kUint8;
  } else if (has(n, kKeepsCodes)) {
    auto it = codes_.find(n.inputs[0]);
    const Tensor* table = it == codes_.end() && is_gather(n) ? stored(n.inputs[0]) : nullptr;
    if (it != codes_.end())
      for (const auto& o : n.outputs) codes_[o] = it->second;
    else if (table && holds_codes(table->type()) && index_.is_initializer(n.inputs[0]))
      codes_[n.outputs[0]] = table->type();
  }
}

// The largest initializer that a chain of Cast, Mul ... unfolds into this tensor; nothing if any of it is computed.
const Tensor* LayerForms::stored(const std::string& tensor, int depth) const {
  if (const Tensor* constant = index_.constant(tensor)) return constant;
  const Node* n = producer(tensor);
  if (!n || depth == kLongestChain || !has(*n, kUnfoldsWeights)) return nullptr;
  const Tensor* largest = nullptr;
  for (const auto& name : n->inputs) {
    if (name.empty()) continue;
    const Tensor* t = stored(name, depth + 1);
    if (!t) return nullptr;
    if (!largest || t->element_count() > largest->element_count()) largest = t;
  }
  return largest;
}

// True where two weights share a byte.
bool LayerForms::is_packed(const std::string& tensor, int depth) const {
  const Node* n = producer(tensor);
  if (!n || depth == kLongestChain || !has(*n, kUnfoldsWeights)) return false;
  return is_bit_shift(*n) || (!n->inputs.empty() && is_packed(n->inputs[0], depth + 1));
}

std::string LayerForms::why_no_floats(const Node& node) const {
  std::vector<std::string> tensors;
  for (size_t k : data_inputs(node)) tensors.push_back(node.inputs[k]);
  if (!node.outputs.empty()) tensors.push_back(node.outputs[0]);
  std::string unknown;
  for (const std::string& tensor : tensors) {
    const Kind kind = input(tensor).kind;
    if (kind == Kind::kUnknown && unknown.empty()) unknown = tensor;
    else if (kind != Kind::kUnknown && kind != Kind::kOther) return "";
  }
  if (unknown.empty()) return "reads and writes no float tensor";
  return fmt::format("the type of '{}' is not known: shape inference gave none", unknown);
}

InputForm LayerForms::input(const std::string& name) const {
  InputForm form;
  if (name.empty()) return form;
  if (auto it = codes_.find(name); it != codes_.end()) return {Kind::kQuantized, it->second, false, false};
  const Node* n = producer(name);
  bool linear = n && is_dequantize(*n);
  if (linear) {
    form.dequantize_linear = true;
    auto scale = index_.initializers.find(n->inputs[1]);
    form.per_channel = scale != index_.initializers.end() && scale->second->element_count() > 1;
  }
  if (const Tensor* t = stored(name)) {
    form.type = t->type();
    if (holds_codes(t->type()) && (linear || !index_.constant(name))) {
      form.kind = Kind::kQuantizedWeight;
      if (is_packed(name)) form.type = DataType::kUint4;
      if (n && is_mul(*n))
        for (const auto& factor : n->inputs)
          if (auto it = index_.initializers.find(factor); it != index_.initializers.end())
            form.per_channel = it->second->element_count() > 1;
      return form;
    }
    if (linear && t->is_float()) {  // float weight -> Q -> DQ
      const Node* q = producer(n->inputs[0]);
      auto it = q ? codes_.find(q->outputs[0]) : codes_.end();
      if (it != codes_.end()) return {Kind::kQuantizedWeight, it->second, form.per_channel, true};
    }
    if (t->type() == DataType::kFloat16) form.kind = Kind::kHalfConstant;
    else if (t->is_float()) form.kind = Kind::kConstant;
    else if (holds_codes(t->type())) form.kind = Kind::kQuantizedWeight;
    return form;
  }
  if (linear) {
    auto it = codes_.find(n->inputs[0]);
    return {Kind::kQuantized, it == codes_.end() ? DataType::kUint8 : it->second, form.per_channel, true};
  }
  auto it = index_.types.find(name);
  DataType type = it == index_.types.end() ? DataType::kUndefined : it->second;
  if (type == DataType::kUndefined && types_)
    if (auto other = types_->find(name); other != types_->end()) type = other->second;
  if (type == DataType::kFloat16) form.kind = Kind::kHalfActivation;
  else if (type == DataType::kFloat || type == DataType::kDouble) form.kind = Kind::kActivation;
  else if (type == DataType::kUndefined) form.kind = Kind::kUnknown;
  return form;
}

bool LayerForms::output_is_quantized(const Node& n) const {
  if (n.outputs.empty()) return false;
  if (codes_.contains(n.outputs[0])) return true;
  return std::ranges::any_of(index_.edges.readers(n.outputs[0]), [](const Node* r) { return is_quantize(*r); });
}

// Integers in are not enough: without a rule, or with a float output, the runtime computes between float tensors.
bool LayerForms::computes_on_codes(const Node& n) const {
  static const std::unordered_set<std::string> kListed(default_op_types().begin(), default_op_types().end());
  if (has(n, kComputesOnCodes)) return true;
  return kListed.contains(n.op_type) && output_is_quantized(n);
}

LayerForm LayerForms::of(const Node& n) const {
  if (has(n, kCodedWeights)) {
    if (!has(n, kBlocks)) return {Scheme::kInt8Weights, "embeddings in uint8"};
    int64_t bits = n.int_attribute("bits", 4);
    return {bits == 8 ? Scheme::kInt8Weights : Scheme::kInt4Weights,
            fmt::format("weights in {} bits, blocks of {}", bits, n.int_attribute("block_size", 128))};
  }
  if (has(n, kDynamic)) return {Scheme::kInt8Dynamic, fmt::format("{}, activations at run time", n.op_type)};
  if (is_quantized_operator(n)) {
    std::string how =
        fmt::format("{}, activations {}", n.op_type,
                    to_string(codes_.contains(n.outputs[0]) ? codes_.at(n.outputs[0]) : DataType::kUint8));
    if (has(n, kCodedProduct)) how += fmt::format(", weights {}", to_string(zero_point_type(n, 5)));
    return {Scheme::kInt8, how};
  }
  std::set<Kind> kinds;
  DataType activation = DataType::kUndefined, weight = DataType::kUndefined;
  bool per_channel = false;
  for (size_t k : data_inputs(n)) {
    InputForm form = input(n.inputs[k]);
    kinds.insert(form.kind);
    if (form.kind == Kind::kQuantized) activation = form.type;
    if (form.kind == Kind::kQuantizedWeight) weight = form.type, per_channel = form.per_channel;
  }
  auto has = [&](Kind kind) { return kinds.contains(kind); };
  bool floats = has(Kind::kActivation) || has(Kind::kUnknown) || has(Kind::kConstant);
  bool four_bits = is_4_bits(weight);
  std::string weights = has(Kind::kQuantizedWeight)
                            ? fmt::format("weights {}{}", to_string(weight), per_channel ? " per channel" : "")
                            : "";
  if (has(Kind::kQuantized) && !floats && computes_on_codes(n)) {
    bool wide = is_16_bits(activation);
    bool narrow = is_8_bits(weight);
    std::string how = fmt::format("activations {}", to_string(activation));
    if (!weights.empty()) how += ", " + weights;
    if (!output_is_quantized(n)) how += "; its output is not quantized";
    return {wide && narrow ? Scheme::kInt8wInt16a : Scheme::kInt8, how};
  }
  if (has(Kind::kQuantizedWeight))
    return {four_bits ? Scheme::kInt4Weights : Scheme::kInt8Weights, weights + ", computed in float"};
  if (has(Kind::kHalfActivation) || has(Kind::kHalfConstant))
    return {Scheme::kFloat16, has(Kind::kHalfActivation) ? "computed in float16" : "weights float16"};
  return {};
}

bool LayerForms::is_plumbing(const Node& node) const { return plumbing_.contains(&node); }

void LayerForms::find_plumbing(const Node& n) {
  auto add_producers = [&](auto&& self, const std::string& tensor, int depth) -> void {
    const Node* p = producer(tensor);
    if (!p || depth == kLongestChain || !has(*p, kUnfoldsWeights) || !plumbing_.insert(p).second) return;
    for (const auto& name : p->inputs) self(self, name, depth + 1);
  };
  if (has(n, kConverts)) plumbing_.insert(&n);
  for (const auto& name : n.inputs) {  // what unfolds a stored weight
    const Node* p = producer(name);
    if (!p || has(n, kUnfoldsWeights)) continue;
    const Tensor* t = stored(name);
    if (t && (holds_codes(t->type()) || t->type() == DataType::kFloat16) && has(*p, kEndsUnfolding))
      add_producers(add_producers, name, 0);
  }
  // float16 islands stand between Casts.
  if (is_cast(n) && (n.int_attribute("to", 0) == static_cast<int64_t>(DataType::kFloat16) ||
                     input(n.inputs[0]).kind == Kind::kHalfActivation))
    plumbing_.insert(&n);
  if (has(n, kIntegerProduct)) find_plumbing_behind(n);
}

void LayerForms::find_plumbing_behind(const Node& product) {
  for (const Node* cast : index_.edges.readers(product.outputs[0])) {
    if (!is_cast(*cast)) continue;
    plumbing_.insert(cast);
    for (const Node* mul : index_.edges.readers(cast->outputs[0])) {
      if (!is_mul(*mul)) continue;
      plumbing_.insert(mul);
      for (const auto& name : mul->inputs)
        if (const Node* scales = producer(name); scales && is_mul(*scales)) plumbing_.insert(scales);
      if (!is_conv_integer(product)) continue;
      for (const Node* add : index_.edges.readers(mul->outputs[0]))
        for (const auto& name : add->inputs)
          if (const Node* r = producer(name); is_add(*add) && r && is_reshape(*r) && stored(name))
            plumbing_.insert({add, r});
    }
  }
}

const Node* LayerForms::counterpart(const Node& node) const {
  for (const std::string& name : {node.name, node.name + kQuantSuffix})
    if (auto it = names_.find(name); !name.empty() && it != names_.end() && !is_plumbing(*it->second))
      return it->second;
  // Renamed: whatever computes its output now, behind the nodes that only carry it.
  for (const auto& output : node.outputs) {
    const Node* p = producer(output);
    if (!p) p = producer(output + "_quantized");  // onnxruntime's codes that no node reads as floats
    for (int i = 0; p && i < kLongestChain && is_plumbing(*p); ++i) p = producer(p->inputs[0]);
    if (p && !is_plumbing(*p)) return p;
  }
  return nullptr;
}

}  // namespace seqto::internal
