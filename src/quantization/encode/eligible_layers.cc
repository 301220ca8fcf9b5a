#include "quantization/encode/eligible_layers.h"

#include <algorithm>
#include <string_view>

#include "model/op_traits.h"
#include "quantization/encode/float_results.h"
#include "quantization/encode/operator_rules.h"
#include "quantization/encode/readout.h"
#include "quantization/plan/overrides.h"

namespace seqto::internal {

EligibleLayers::EligibleLayers(const Model& model, const GraphView& view, const Ranges& ranges,
                               const QuantizeOptions& options)
    : model_(model),
      view_(view),
      ranges_(ranges),
      options_(options),
      include_(options.include.begin(), options.include.end()),
      exclude_(options.exclude.begin(), options.exclude.end()) {
  const Left left{half_concats(), find_readout(), find_free(), find_computed()};
  for (const Node& n : model.graph.nodes) {
    const bool listed = lists(n, Scheme::kInt8);
    const char* id = listed ? why_float(n, left) : nullptr;
    if (id) left_float_.emplace_back(n.name, id);
    static_.push_back(listed && !id);
    // What static quantization has no rule for can still have its weights stored in fewer bits.
    stored_.push_back(is_named(n) && (options.op_types.empty() || listed));
  }
}

bool EligibleLayers::is_named(const Node& n) const {
  return (include_.empty() || include_.contains(n.name)) && !exclude_.contains(n.name);
}

bool EligibleLayers::lists(const Node& n, Scheme scheme) const {
  return is_named(n) && lists_op_type(options_, scheme, n) && !has(n, kPair);
}

bool EligibleLayers::can_have(size_t node, Scheme scheme) const {
  if (scheme == Scheme::kInt8Dynamic) return lists(model_.graph.nodes[node], scheme);
  const bool stored_only =
      scheme == Scheme::kInt8Weights || scheme == Scheme::kInt4Weights || scheme == Scheme::kFloat16;
  return stored_only ? stored_[node] : static_[node];
}

// What a Concat of float16 writes, also through what moves values. The runtime makes one operator of 8 bits of a
// Concat between pairs, whose scales cannot be float16; it also moves Q and DQ through these operators, and drops the
// Relu or Clip in front of Q.
std::unordered_set<std::string> EligibleLayers::half_concats() const {
  std::unordered_set<std::string> found;
  if (options_.format != QuantFormat::kQdq || !is_8_bits(options_.activation_type)) return found;
  for (const Node& n : model_.graph.nodes) {
    if (n.outputs.empty() || n.inputs.empty()) continue;
    auto type = view_.types.find(n.outputs[0]);
    bool half = type != view_.types.end() && type->second == DataType::kFloat16;
    const bool passes = moves_values(n) || has(n, kClips) || is_max_pool(n) || is_flatten(n);
    if ((half && is_concat(n)) || (passes && found.contains(n.inputs[0]))) found.insert(n.outputs[0]);
  }
  return found;
}

std::unordered_set<std::string> EligibleLayers::find_readout() const {
  if (!options_.float_unlike_concat || options_.compat_onnxruntime || is_16_bits(options_.activation_type)) return {};
  return readout(model_, view_);
}

std::unordered_set<std::string> EligibleLayers::find_free() const {
  if (!options_.float_between_products || options_.compat_onnxruntime) return {};
  return float_results(model_, view_, options_.exclude_output_op_types);
}

// Of constants alone.
std::unordered_set<std::string> EligibleLayers::find_computed() const {
  if (!options_.float_between_products || options_.compat_onnxruntime) return {};
  std::unordered_set<std::string> found;
  const auto is_known = [&](const std::string& name) {
    return name.empty() || view_.constant(name) || found.contains(name);
  };
  for (const Node& n : model_.graph.nodes)
    if (!n.inputs.empty() && !has(n, kPair) && std::ranges::all_of(n.inputs, is_known))
      found.insert(n.outputs.begin(), n.outputs.end());
  return found;
}

// The id of what keeps a layer that was asked for in float; null where nothing does.
const char* EligibleLayers::why_float(const Node& n, const Left& left) const {
  auto reads_nothing = [&](size_t k) {
    const Tensor* value = view_.constant(n.inputs[k]);
    return value && value->is_float() && value->element_count() == 0;
  };
  if (std::ranges::any_of(data_inputs(n), reads_nothing)) return "D58";
  if (options_.compat_onnxruntime) return nullptr;
  // The runtime computes it once, when it loads the model.
  if (has(n, kProduct) && left.computed.contains(n.outputs[0])) return "D62";
  // No scale can span it.
  auto unbounded = [&](const std::string& name) {
    auto it = ranges_.find(name);
    return it != ranges_.end() && std::max(-it->second.lowest, it->second.highest) >= kUnbounded;
  };
  auto concat = [&](const std::string& name) { return left.half_concats.contains(name); };
  if (std::ranges::any_of(n.outputs, [&](const std::string& name) { return left.readout.contains(name); }))
    return "D56";
  if (std::ranges::any_of(n.inputs, unbounded) || std::ranges::any_of(n.outputs, unbounded)) return "D52";
  if (std::ranges::any_of(n.inputs, concat) || std::ranges::any_of(n.outputs, concat)) return "D53";
  if (std::ranges::any_of(n.outputs, [&](const std::string& name) { return left.free.contains(name); }) &&
      !has_weight(n, view_) && !is_clip_of_product(n, view_))
    return "D59";
  return nullptr;
}

Plan eligible_plan(const Model& model, const QuantizeOptions& options, const DetailedScheme& scheme) {
  Plan plan = uniform_plan(model, scheme, options.exclude);
  const GraphView view(model);
  const Ranges none;
  const EligibleLayers eligible(model, view, none, options);
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    const LayerId& layer = model.graph.nodes[i].name;
    if (!eligible.can_have(i, scheme.scheme)) plan.schemes.erase(layer), plan.options.erase(layer);
  }
  return plan;
}

}  // namespace seqto::internal
