#include "quantization/read/settled_pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/bodies.h"
#include "model/op_traits.h"
#include "quantization/plan/code_types.h"

namespace seqto::internal {
namespace {

constexpr int kMostShared = 8;   // elements of a constant that is compared by its values
constexpr int kMostRounds = 10;  // of an optimizer's passes; ONNX Runtime's own limit

std::optional<QuantLimits> code_limits(DataType type) {
  if (!is_8_bits(type) && !is_16_bits(type)) return {};
  return quant_limits(type);
}

std::string value_text(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, OpaqueAttribute>)
          return fmt::format("{}", fmt::ptr(&value));
        else if constexpr (requires { value.size(); } && !std::is_same_v<T, std::string>)
          return fmt::format("{}", fmt::join(value, ","));
        else return fmt::format("{}", value);
      },
      attribute.value);
}

}  // namespace

SettledPairs::SettledPairs(const Model& model, const Target& target) : PairGraph(model), target_(target) {
  for (const TargetRule& rule : target.rules)
    for (const std::string& op : rule.ops) rules_[op].push_back(&rule);
  if (target_.optimizes_pairs) {
    make_unique();
    for (int round = 0; round < kMostRounds && settle(); ++round) {
    }
    drop_clips();
    drop_undone({});
  } else {
    propagate();
  }
  if (target_.signed_pairs_become_unsigned) make_unsigned();
}

bool SettledPairs::settle() {
  bool changed = drop_identities();
  changed |= join_doubles();
  changed |= merge_equal();
  changed |= fold();
  changed |= propagate();
  quantize_constants();
  pair_scalars();
  changed |= make_unique();
  return changed;
}

bool SettledPairs::go_on(const std::unordered_set<std::string>& fused) {
  if (!target_.optimizes_pairs || !drop_undone(fused)) return false;
  drop_clips();
  drop_undone(fused);
  if (target_.signed_pairs_become_unsigned) make_unsigned();
  return true;
}

const TargetRule* SettledPairs::rule(const Node& node) const {
  const auto rules = rules_.find(node.op_type);
  return rules == rules_.end() || !node.domain.empty() ? nullptr : rules->second.front();
}

bool SettledPairs::propagates(const Node& node) const {
  const TargetRule* found = rule(node);
  return found && found->propagates && opset_ >= found->from_opset && !node.inputs.empty() && !node.outputs.empty();
}

bool SettledPairs::is_foldable(const Node& node) const {
  if (is_removed(node) || node.outputs.empty() || is_dequantize(node) || is_quantized_operator(node) ||
      seqto::internal::is_constant(node) || has_body(node) || has(node, kRandom))
    return false;
  if (std::ranges::any_of(node.outputs, [&](const std::string& o) { return folded_.contains(o); })) return false;
  if (node.inputs.empty()) return false;
  if (is_shape(node)) return shapes_.contains(node.inputs[0]);
  return std::ranges::all_of(node.inputs, [&](const std::string& i) { return i.empty() || is_constant(i); });
}

// What a node makes of one number, as exporters write bounds.
std::optional<Tensor> SettledPairs::value_of(const Node& node) const {
  const Tensor* from = node.inputs.size() == 1 ? constant(node.inputs[0]) : nullptr;
  if (!from || from->element_count() != 1 || !types_.contains(node.outputs[0]) ||
      types_.at(node.outputs[0]) != DataType::kFloat)
    return {};
  const auto value = static_cast<float>(element(*from, 0));
  if (is_cast(node) || is_identity(node)) return float_tensor(from->dims(), {value});
  if (node.op_type == "Abs") return float_tensor(from->dims(), {std::abs(value)});
  return node.op_type == "Neg" ? std::optional(float_tensor(from->dims(), {-value})) : std::nullopt;
}

// What constants alone make is computed once. DequantizeLinear stays, so that layers are found, but where one operator
// stands between it and a QuantizeLinear.
bool SettledPairs::fold() {
  bool changed = false;
  for (Node& node : nodes_) {
    bool foldable = is_foldable(node);
    if (!foldable && !is_removed(node) && node.inputs.size() == 1 && node.outputs.size() == 1 && !has_body(node)) {
      const Node *before = producer(node.inputs[0]), *behind = only_reader(node.outputs[0]);
      foldable = before && is_dequantize(*before) && uses(node.inputs[0]) == 1 && is_constant(before->inputs[0]) &&
                 behind && is_quantize(*behind) && !folded_.contains(node.outputs[0]);
    }
    if (!foldable) continue;
    folded_.insert(node.outputs.begin(), node.outputs.end());
    if (auto value = value_of(node)) constants_[node.outputs[0]] = std::move(*value);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const std::string tensor = node.inputs[i];
      std::erase_if(readers_[tensor], [&](const Use& u) { return u.node == &node && u.input == i; });
      if (!tensor.empty()) remove_unread(tensor);
    }
    changed = true;
  }
  return changed;
}

// What equal nodes compute is computed once; DequantizeLinear stays, one for each reader.
bool SettledPairs::merge_equal() {
  bool changed = false;
  std::unordered_map<std::string, Node*> first;
  for (Node& node : nodes_) {
    if (is_removed(node) || is_dequantize(node) || node.inputs.empty() || has_body(node) || has(node, kRandom) ||
        folded_.contains(node.outputs[0]))
      continue;
    std::string key = fmt::format("{}|{}|{}", node.domain, node.op_type, node.outputs.size());
    for (const Attribute& a : node.attributes) key += fmt::format("|{}={}", a.name, value_text(a));
    for (const std::string& tensor : node.inputs) key += "|" + value_key(tensor);
    Node*& same = first.try_emplace(std::move(key), &node).first->second;
    if (same == &node || std::ranges::any_of(node.outputs, [&](const std::string& o) { return others_.contains(o); }))
      continue;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      for (const Use& reader : std::vector(readers(node.outputs[i]))) read(reader, same->outputs[i]);
    heirs_[node.name].push_back(same->name);
    remove(node);
    changed = true;
  }
  return changed;
}

// Equal for equal tensors: small constants by what they hold.
std::string SettledPairs::value_key(const std::string& tensor) const {
  const Tensor* value = constant(tensor);
  if (!value || value->element_count() > kMostShared || value->type() == DataType::kString) return tensor;
  std::string key = fmt::format("{}{}", to_string(value->type()), fmt::join(value->dims(), "x"));
  for (int64_t i = 0; i < value->element_count(); ++i) key += fmt::format(",{}", element(*value, i));
  return key;
}

bool SettledPairs::drop_identities() {
  bool changed = false;
  for (Node& node : nodes_) {
    if (is_removed(node) || !is_identity(node) || others_.contains(node.outputs[0]) || !producer(node.inputs[0]))
      continue;
    bypass(node);
    changed = true;
  }
  return changed;
}

// Of two pairs in a row the inner halves go; the outer ones get what both let through.
bool SettledPairs::join_doubles() {
  bool changed = false;
  for (Node& inner : nodes_) {
    if (is_removed(inner) || !is_dequantize(inner)) continue;
    Node *outer = producer(inner.inputs[0]), *second = only_reader(inner.outputs[0]);
    if (!outer || !second || !is_quantize(*outer) || !is_quantize(*second) || uses(outer->outputs[0]) != 1) continue;
    const std::vector<Use> last = readers(second->outputs[0]);
    const auto fits = [&](const Use& u) { return is_dequantize(*u.node) && say_the_same(*second, *u.node); };
    if (!say_the_same(*outer, inner) || last.empty() || uses(second->outputs[0]) != last.size() ||
        !std::ranges::all_of(last, fits))
      continue;
    const Tensor *scale = constant(input(inner, 1)), *zero = constant(input(inner, 2));
    const Tensor *scale2 = constant(input(*second, 1)), *zero2 = constant(input(*second, 2));
    const auto limits = code_limits(zero->type());
    if (element_bits(zero->type()) != 8 || !limits || zero2->type() != zero->type()) continue;
    const double s1 = element(*scale, 0), z1 = element(*zero, 0), s2 = element(*scale2, 0), z2 = element(*zero2, 0);
    const double low = std::max((limits->lowest - z1) * s1, (limits->lowest - z2) * s2);
    const double high = std::min((limits->highest - z1) * s1, (limits->highest - z2) * s2);
    if (!(low < high)) continue;
    const double s = (high - low) / (limits->highest - limits->lowest), z = std::round(limits->lowest - low / s);
    const std::string of_scale = new_constant(input(inner, 1), float_tensor(scale->dims(), {static_cast<float>(s)}));
    const std::string of_zero = new_constant(
        input(inner, 2), zero->type() == DataType::kInt8
                             ? Tensor::from<int8_t>(DataType::kInt8, zero->dims(), {static_cast<int8_t>(z)})
                             : Tensor::from<uint8_t>(DataType::kUint8, zero->dims(), {static_cast<uint8_t>(z)}));
    remove(inner);
    remove(*second);
    std::vector<Node*> ends{outer};
    for (const Use& use : last) read(use, outer->outputs[0]), ends.push_back(use.node);
    for (Node* end : ends) read({end, 1}, of_scale), read({end, 2}, of_zero);
    changed = true;
  }
  return changed;
}

// One pair behind the tensor for these of its readers, with the parameters of `like`.
void SettledPairs::insert(const std::string& tensor, const std::vector<Use>& uses, const Node& like, bool forward) {
  const DataType type = types_[is_quantize(like) ? like.outputs[0] : like.inputs[0]];
  const std::string codes = new_tensor(tensor, type);
  copy_pair(like, "QuantizeLinear", tensor, codes, forward ? nullptr : &like);
  for (const Use& use : uses) {
    const std::string floats = new_tensor(tensor, types_[tensor]);
    copy_pair(like, "DequantizeLinear", codes, floats, forward ? &like : nullptr);
    read(use, floats);
  }
}

// The same where the mover's output is one of the graph's.
bool SettledPairs::insert_before_output(Node& mover, const Node& like) {
  const std::string output = mover.outputs[0];
  if (std::ranges::any_of(readers(output), [](const Use& u) { return is_quantize(*u.node); })) return false;
  const std::string moved = new_tensor(output, types_[output]), codes = new_tensor(output, types_[like.inputs[0]]);
  const std::vector<Use> others = readers(output);
  mover.outputs[0] = moved;
  producers_[moved] = &mover;
  copy_pair(like, "QuantizeLinear", moved, codes, nullptr);
  copy_pair(like, "DequantizeLinear", codes, output, &like);
  for (const Use& use : others) {
    const std::string floats = new_tensor(output, types_[output]);
    copy_pair(like, "DequantizeLinear", codes, floats, &like);
    read(use, floats);
  }
  return true;
}

// Pairs on one side of what moves values move to the other.
bool SettledPairs::propagate() {
  std::vector<const Node*> quantize, dequantize;
  for (const Node& node : nodes_) {
    if (is_removed(node) || !has(node, kPair) || !has_constant_scalars(node)) continue;
    (is_quantize(node) ? quantize : dequantize).push_back(&node);
  }
  bool changed = false;
  for (const Node* node : quantize) changed |= propagate_backward(*node);
  for (const Node* node : dequantize) changed |= propagate_forward(*node);
  return changed;
}

bool SettledPairs::propagate_backward(const Node& quantize) {
  bool changed = false;
  std::string tensor = quantize.inputs[0];
  for (Node* mover = producer(tensor); mover && propagates(*mover) && uses(tensor) == 1; mover = producer(tensor)) {
    const std::string from = mover->inputs[0];
    if (const Node* before = producer(from)) {
      if (is_dequantize(*before) || uses(from) != 1) break;
    }
    if (is_constant(from)) break;
    insert(from, {{mover, 0}}, quantize, false);
    changed = true;
    tensor = from;
  }
  return changed;
}

bool SettledPairs::propagate_forward(const Node& dequantize) {
  bool changed = false;
  std::vector<std::string> ahead{dequantize.outputs[0]};
  if (uses(ahead[0]) != 1) return false;
  while (!ahead.empty()) {
    const std::string tensor = ahead.back();
    ahead.pop_back();
    for (const Use& use : std::vector(readers(tensor))) {
      if (!propagates(*use.node)) continue;
      const std::string behind = use.node->outputs[0];
      if (outputs_.contains(behind)) {
        changed |= insert_before_output(*use.node, dequantize);
        continue;
      }
      if (others_.contains(behind)) continue;
      std::vector<Use> next;
      for (const Use& u : readers(behind))
        if (!is_quantize(*u.node)) next.push_back(u);
      if (next.empty()) continue;
      insert(behind, next, dequantize, true);
      for (const Use& u : next) ahead.push_back(u.node->inputs[u.input]);
      changed = true;
    }
  }
  return changed;
}

void SettledPairs::quantize_constants() {
  for (size_t i = 0; i < nodes_.size(); ++i) {  // it grows
    Node& node = nodes_[i];
    if (const TargetRule* found = is_removed(node) ? nullptr : rule(node); found && found->quantizes_constants)
      quantize_constants(node);
  }
}

// Weights and biases in float, of layers between pairs: with a Relu or Clip in front of the QuantizeLinear, too.
void SettledPairs::quantize_constants(Node& node) {
  const Node* before = producer(node.inputs[0]);
  if (!before || !is_dequantize(*before) || !is_scalar(input(*before, 1))) return;
  const Node* behind = only_reader(node.outputs[0]);
  while (behind && has(*behind, kClips)) behind = only_reader(behind->outputs[0]);
  if (!behind || !is_quantize(*behind)) return;
  const Node* weight = producer(node.inputs[1]);
  const bool in_codes = weight && is_dequantize(*weight);
  if (!in_codes && (!is_constant(node.inputs[1]) || types_[node.inputs[1]] != DataType::kFloat)) return;
  const std::string bias = input(node, 2);
  const auto shape = shapes_.find(bias);
  if (!bias.empty() &&
      (!(is_constant(bias) || initializers_.contains(bias)) || shape == shapes_.end() || shape->second.size() != 1))
    return;
  if (in_codes && !bias.empty() && !is_scalar(input(*weight, 1))) {
    const auto scales = shapes_.find(input(*weight, 1));
    if (scales == shapes_.end() || scales->second != shape->second) return;
  }
  const auto pair = [&](size_t i, DataType type) {
    const std::string codes = new_tensor(node.inputs[i], type), floats = new_tensor(node.inputs[i], DataType::kFloat);
    folded_.insert(codes);
    Node dequantize{.name = fmt::format("{}#{}", node.name, nodes_.size()), .op_type = "DequantizeLinear"};
    dequantize.inputs = {codes, ""};  // as the others have it
    dequantize.outputs = {floats};
    add(std::move(dequantize));
    read({&node, i}, floats);
  };
  if (!in_codes) pair(1, DataType::kInt8);
  if (!bias.empty()) pair(2, DataType::kInt32);
}

// A scalar beside codes becomes codes of the same type, where the output is in that type, too.
void SettledPairs::pair_scalars() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    const TargetRule* found = is_removed(node) ? nullptr : rule(node);
    if (!found || !found->pairs_scalars) continue;
    const Node *behind = only_reader(node.outputs[0]), *beside = nullptr;
    std::optional<size_t> scalar;
    for (const size_t k : data_inputs(node)) {
      const Node* before = producer(node.inputs[k]);
      const auto shape = shapes_.find(node.inputs[k]);
      if (before && is_dequantize(*before)) beside = before;
      else if (is_constant(node.inputs[k]) && shape != shapes_.end() && shape->second.empty()) scalar = k;
    }
    if (!behind || !is_quantize(*behind) || !beside || !scalar ||
        types_[beside->inputs[0]] != types_[behind->outputs[0]])
      continue;
    const std::string codes = new_tensor(node.inputs[*scalar], types_[beside->inputs[0]]);
    const std::string floats = new_tensor(node.inputs[*scalar], DataType::kFloat);
    folded_.insert(codes);
    copy_pair(*beside, "DequantizeLinear", codes, floats, nullptr);
    read({&node, *scalar}, floats);
  }
}

// Each reader gets a DequantizeLinear of its own.
bool SettledPairs::make_unique() {
  bool changed = false;
  const size_t count = nodes_.size();
  for (size_t i = 0; i < count; ++i) {
    const Node& node = nodes_[i];
    if (is_removed(node) || !is_dequantize(node) || uses(node.outputs[0]) < 2) continue;
    std::vector<Use> further = readers(node.outputs[0]);
    if (!further.empty() && !others_.contains(node.outputs[0])) further.erase(further.begin());
    for (const Use& use : further) {
      const std::string own = new_tensor(node.outputs[0], types_[node.outputs[0]]);
      copy_pair(node, "DequantizeLinear", node.inputs[0], own, &node).attributes = node.attributes;
      read(use, own);
      changed = true;
    }
  }
  return changed;
}

// Of a Clip; nothing where one is computed at run time.
std::optional<std::pair<double, double>> SettledPairs::bounds_of(const Node& clip) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (opset_ < 11)
    return std::pair<double, double>(clip.float_attribute("min", -std::numeric_limits<float>::infinity()),
                                     clip.float_attribute("max", std::numeric_limits<float>::infinity()));
  std::pair bounds{-kInfinity, kInfinity};
  for (const size_t i : {1, 2}) {
    if (input(clip, i).empty()) continue;
    const Tensor* bound = constant(input(clip, i));
    if (!bound || bound->element_count() != 1) return {};
    (i == 1 ? bounds.first : bounds.second) = element(*bound, 0);
  }
  return bounds;
}

// A Relu or Clip that the QuantizeLinear behind it does again. Where it is not the `first` to go, a convolution
// in float has taken it in already.
void SettledPairs::drop_clips() {
  const auto reads_codes = [&](const Node& n) {
    return producer(n.inputs[0]) && is_dequantize(*producer(n.inputs[0]));
  };
  for (bool first = true, changed = true; changed; first = false) {
    changed = false;
    for (Node& node : nodes_) {
      if (is_removed(node) || !has(node, kClips) || !node.domain.empty() || folded_.contains(node.outputs[0])) continue;
      const Node *quantize = only_reader(node.outputs[0]), *before = producer(node.inputs[0]);
      if (!quantize || !is_quantize(*quantize) || (!first && before && is_conv(*before) && !reads_codes(*before)))
        continue;
      const Tensor *scale = constant(input(*quantize, 1)), *zero = constant(input(*quantize, 2));
      if (!scale || !zero || scale->element_count() != 1 || zero->element_count() != 1) continue;
      const auto limits = code_limits(zero->type());
      if (is_relu(node)) {
        if (limits && element(*zero, 0) != limits->lowest) continue;  // of 4 bits it looks at no zero point
      } else {
        const auto bounds = bounds_of(node);
        if (!limits || !bounds) continue;
        const double s = element(*scale, 0), z = element(*zero, 0), epsilon = std::numeric_limits<float>::epsilon();
        if (epsilon < bounds->first - s * (limits->lowest - z) || epsilon < s * (limits->highest - z) - bounds->second)
          continue;
      }
      // Not one of an input, if it has bounds beside it: 1.20 tries, and ends.
      if (node.inputs.size() > 1 && inputs_.contains(node.inputs[0])) {
        clips_of_inputs_.insert(node.name);
        continue;
      }
      bypass(node);
      changed = true;
    }
  }
}

// int8 of a QuantizeLinear that one DequantizeLinear reads becomes uint8.
bool SettledPairs::make_unsigned() {
  bool changed = false;
  for (Node& quantize : nodes_) {
    if (is_removed(quantize) || !is_quantize(quantize) || types_[quantize.outputs[0]] != DataType::kInt8) continue;
    Node* dequantize = only_reader(quantize.outputs[0]);
    const Tensor* zero = constant(input(quantize, 2));
    if (folded_.contains(quantize.outputs[0]) || !dequantize || !is_dequantize(*dequantize) || !zero ||
        zero->element_count() != 1)
      continue;
    const Tensor* other = constant(input(*dequantize, 2));
    if (!other || other->element_count() != 1 || element(*other, 0) != element(*zero, 0)) continue;
    const auto shifted = static_cast<uint8_t>(element(*zero, 0) + 128);
    const std::string name =
        new_constant(input(quantize, 2), Tensor::from<uint8_t>(DataType::kUint8, zero->dims(), {shifted}));
    read({&quantize, 2}, name);
    read({dequantize, 2}, name);
    const std::string codes = new_tensor(quantize.outputs[0], DataType::kUint8);
    producers_.erase(quantize.outputs[0]);
    quantize.outputs[0] = codes;
    producers_[codes] = &quantize;
    read({dequantize, 0}, codes);
    changed = true;
  }
  return changed;
}

// Whether the codes are for one node, though it may read them at two inputs, each with a DequantizeLinear of its own.
bool SettledPairs::serves_one(const std::string& codes) const {
  if (others_.contains(codes)) return false;
  if (uses(codes) == 1) return true;
  std::unordered_set<const Node*> behind;
  for (const Use& use : readers(codes)) {
    const Node* reader = is_dequantize(*use.node) ? only_reader(use.node->outputs[0]) : nullptr;
    if (!reader) return false;
    behind.insert(reader);
  }
  return behind.size() == 1;
}

// A QuantizeLinear that undoes the DequantizeLinear in front of it.
bool SettledPairs::drop_undone(const std::unordered_set<std::string>& fused) {
  bool changed = false;
  for (Node& dequantize : nodes_) {
    if (is_removed(dequantize) || !is_dequantize(dequantize) || fused.contains(dequantize.name)) continue;
    Node* quantize = only_reader(dequantize.outputs[0]);
    if (!quantize || !is_quantize(*quantize) || fused.contains(quantize->name) ||
        !say_the_same(dequantize, *quantize) || !serves_one(quantize->outputs[0]))
      continue;
    const std::string codes = dequantize.inputs[0];
    const std::vector<Use> uses = readers(quantize->outputs[0]);
    remove(dequantize);
    remove(*quantize);
    for (const Use& use : uses) read(use, codes);
    changed = true;
  }
  return changed;
}

}  // namespace seqto::internal
