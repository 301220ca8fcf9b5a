// Options that a file for a target is made with.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "quantization/plan/model_refusal.h"
#include "quantization/plan/refused_layers.h"
#include "quantization/plan/target_pairs.h"
#include "seqto/error.h"
#include "seqto/target.h"

namespace seqto {
namespace {

using namespace internal;

constexpr int kMostRounds = 20;  // a layer in float may cost its neighbours their rule

// The operator's first rule that takes these types, null for any; else its first. Null: it has none.
const TargetRule* rule_of(const Target& target, std::string_view op, const DataType* activations,
                          const DataType* weights) {
  const auto takes = [](const std::vector<DataType>& types, const DataType* type) {
    return !type || types.empty() || std::ranges::count(types, *type) > 0;
  };
  const TargetRule* first = nullptr;
  for (const TargetRule& rule : target.rules) {
    if (std::ranges::count(rule.ops, op) == 0) continue;
    if (takes(rule.activations, activations) && takes(rule.weights, weights)) return &rule;
    if (!first) first = &rule;
  }
  return first;
}

// The rule for most of the weights: of convolutions, else of products.
const TargetRule& main_rule(const Target& target, const DataType* activations, const DataType* weights) {
  for (const char* op : {"Conv", "MatMul", "Gemm"})
    if (const TargetRule* rule = rule_of(target, op, activations, weights)) return *rule;
  throw Error(Code::kUsage, fmt::format("[target] {} found, which computes no convolution or product in integers; "
                                        "--mode float16 or another target expected",
                                        target.name));
}

void take_type(DataType& type, const std::vector<DataType>& taken, bool is_named, const char* what,
               const Target& target) {
  if (taken.empty() || (is_named && std::ranges::count(taken, type) > 0)) return;
  std::vector<std::string_view> names;
  for (const DataType each : taken) names.push_back(to_string(each));
  if (is_named)
    throw Error(Code::kUsage, fmt::format("[target] {} of {} found; {} takes {}", what, to_string(type), target.name,
                                          fmt::join(names, ", ")));
  type = taken[0];
}

// Those of the quantizer's list, and what else the target computes on codes: its constants need some too.
std::vector<std::string> op_types_on_codes(const Target& target) {
  std::vector<std::string> op_types = default_op_types();
  for (const TargetRule& rule : target.rules)
    for (const std::string& op_type : rule.ops)
      if (rule.as == TargetRule::As::kIntegers && std::ranges::count(op_types, op_type) == 0)
        op_types.push_back(op_type);
  return op_types;
}

// The first node that was refused, in words; empty: none.
std::string first_refused(const Lint& found) {
  for (const LintedNode& node : found.nodes)
    if (node.verdict == Verdict::kRefused)
      return fmt::format("[target] {} refuses {} '{}': {}", found.target, node.op_type, node.node, node.reason);
  return {};
}

// Throws where a node is refused in float as well as in `left`, which has in float what the target computes so. Where
// that is nothing, layers in float cost their neighbours: `on_codes`, of all layers on codes, names the one to blame.
void require_some_form(const Target& target, const Model& model, const std::string& on_codes, const Lint& left) {
  if (left.count(Verdict::kRefused) == 0) return;
  if (target.floats.empty() && !on_codes.empty()) throw Error(Code::kInvalidInput, on_codes);
  std::unordered_set<LayerId> in_float;
  for (const LintedNode& node : lint(infer_shapes(model), target).nodes)
    if (node.verdict == Verdict::kRefused) in_float.insert(node.node);
  Lint both = left;
  std::erase_if(both.nodes, [&](const LintedNode& node) { return !in_float.contains(node.node); });
  if (const std::string why = first_refused(both); !why.empty()) throw Error(Code::kInvalidInput, why);
}

// Ranges that give the file its form, which is all that a rule looks at: nothing was calibrated yet. That of a Clip of
// an input lies within its bounds, as calibration may find it.
Ranges formal_ranges(const Model& model, const GraphView& view) {
  Ranges ranges;
  const auto add = [&](const std::string& tensor, float lowest) { ranges[tensor] = {.lowest = lowest, .highest = 6}; };
  for (const ValueInfo& input : model.graph.free_inputs()) add(input.name, -6);
  for (const Node& node : model.graph.nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty()) add(output, has(node, kNotNegative | kClips) ? 0.0F : -6.0F);
  for (const Node& node : model.graph.nodes) {
    if (!is_clip(node) || node.inputs.size() < 3 || view.edges.producer(node.inputs[0])) continue;
    const Tensor* highest = view.constant(node.inputs[2]);
    if (highest && highest->element_count() == 1 && element(*highest, 0) > 0)
      ranges[node.outputs[0]].highest = static_cast<float>(element(*highest, 0)) / 2;
  }
  return ranges;
}

void take_weights_of_their_own(QuantizeOptions& options, const Target& target, const Model& model,
                               const GraphView& view) {
  for (const Node& node : model.graph.nodes) {
    if (!has(node, kProduct) || node.inputs.size() < 2 || !view.constant(node.inputs[1])) continue;
    const TargetRule* rule = rule_of(target, node.op_type, &options.activation_type, &options.weight_type);
    if (!rule || rule->per_channel || !options.per_channel) continue;
    auto& own = options.tensor_overrides[node.inputs[1]];
    if (own.empty()) own.emplace_back().per_channel = false;
  }
}

void take_fixed_outputs(QuantizeOptions& options, const Target& target, const Model& model) {
  for (const Node& node : model.graph.nodes)
    for (const TargetRule& rule : target.rules) {
      if (!rule.output_scale || node.outputs.empty() || std::ranges::count(rule.ops, node.op_type) == 0 ||
          std::ranges::count(rule.activations, options.activation_type) == 0)
        continue;
      auto& own = options.tensor_overrides[node.outputs[0]];
      if (!own.empty()) continue;
      own.emplace_back().scale = static_cast<float>(*rule.output_scale);
      own.back().zero_point = static_cast<int32_t>(rule.output_zero_point.value_or(0));
    }
}

std::string open_dimensions(const Graph& graph, const Target& target) {
  std::vector<std::string> open;
  for (const ValueInfo& input : graph.free_inputs())
    for (size_t d = 0; input.shape && d < input.shape->size(); ++d) {
      const auto& [value, parameter] = (*input.shape)[d];
      if (value >= 0) continue;
      std::string name = parameter.empty() ? fmt::format("{}:{}", input.name, d) : parameter;
      if (std::ranges::count(open, name) == 0) open.push_back(std::move(name));
    }
  if (open.empty()) return {};
  return fmt::format(
      "open dimensions of the inputs found ({}); {} takes fixed shapes; set them first: seqto prepare MODEL --dim "
      "{}=SIZE -o FIXED",
      fmt::join(open, ", "), target.name, fmt::join(open, "=SIZE --dim "));
}

}  // namespace

std::string internal::model_refusal(const Model& model, const Target& target) {
  if (target.most_opset > 0 && model.opset() > target.most_opset)
    return fmt::format("opset {} found; {} takes at most {}; export the model with that", model.opset(), target.name,
                       target.most_opset);
  if (target.most_ir_version > 0 && model.ir_version > target.most_ir_version)
    return fmt::format("IR version {} found; {} takes at most {}; export it with an older ONNX or set ir_version={}",
                       model.ir_version, target.name, target.most_ir_version, target.most_ir_version);
  return target.fixed_shapes ? open_dimensions(model.graph, target) : "";
}

void internal::require_model_taken(const Model& model, const Target& target) {
  if (const std::string why = model_refusal(model, target); !why.empty())
    throw Error(Code::kInvalidInput, "[target] " + why);
}

void take_target_types(QuantizeOptions& options, const Target& target, std::span<const char* const> named) {
  const auto is_named = [&](std::string_view field) { return std::ranges::count(named, field) > 0; };
  const TargetRule& rule = main_rule(target, is_named("activation_type") ? &options.activation_type : nullptr,
                                     is_named("weight_type") ? &options.weight_type : nullptr);
  take_type(options.activation_type, rule.activations, is_named("activation_type"), "activations", target);
  take_type(options.weight_type, rule.weights, is_named("weight_type"), "weights", target);
  if (!is_named("per_channel")) options.per_channel = rule.per_channel;
  if (rule.symmetric_activations) options.symmetric_activations = true;
  if (rule.symmetric_weights) options.symmetric_weights = true;
  if (rule.power_of_two) options.power_of_two_scales = true;
  if (target.float_biases) options.quantize_bias = false;
  if (!options.min_real_range) options.min_real_range = target.min_real_range;
  const bool saturates = target.arithmetic ? target.arithmetic->pairs_saturate : pairs_saturate_on(target.device);
  if (saturates && !is_named("reduce_range")) options.reduce_range = true;
  if (target.floats.empty()) {
    options.force_quantize_no_input_check = true;  // a Transpose of the input too
    if (options.op_types.empty()) options.op_types = op_types_on_codes(target);
  }
  internal::take_target_pairs(options, target);
}

void take_target_forms(QuantizeOptions& options, const Target& target) {
  const auto computes = [&](const char* type) { return std::ranges::count(target.floats, type) > 0; };
  options.sums_for_adds = target.sums_for_adds;
  options.widen_float16 = computes("float32") && !computes("float16");
}

void internal::take_target_pairs(QuantizeOptions& options, const Target& target) {
  take_target_forms(options, target);
  options.add_joins_product = target.add_joins_product;
  options.equal_input_op_types.clear();
  for (const TargetRule& rule : target.rules)
    if (rule.equal_inputs)
      options.equal_input_op_types.insert(options.equal_input_op_types.end(), rule.ops.begin(), rule.ops.end());
  std::vector<std::string>& without = options.exclude_output_op_types;
  if (!without.empty()) return;
  options.float_between_products = target.float_between_products;
  if (target.pairs_behind) {
    without = default_op_types();
    std::erase_if(without, [&](const std::string& op) { return std::ranges::count(*target.pairs_behind, op) > 0; });
    return;
  }
  for (const TargetRule& rule : target.rules)
    if (!rule.needs_output) without.insert(without.end(), rule.ops.begin(), rule.ops.end());
}

std::string internal::first_refusal(const Model& model, const Target& target) {
  return first_refused(lint(infer_shapes(model), target));
}

namespace {

// Nodes in float whose codes are read in float alone: a pair that costs a conversion and saves nothing.
std::unordered_set<LayerId> idle_writers(const Lint& found, const Model& model, const GraphView& view) {
  std::unordered_set<LayerId> wasted, in_float, idle;
  for (const LintedNode& node : found.nodes) {
    if (node.wasted) wasted.insert(node.node);
    if (node.verdict == Verdict::kFloat) in_float.insert(node.node);
  }
  for (const Node& node : model.graph.nodes) {
    if (!wasted.contains(node.name)) continue;
    for (const size_t i : data_inputs(node))
      if (const Node* writer = i < node.inputs.size() ? view.edges.producer(node.inputs[i]) : nullptr;
          writer && in_float.contains(writer->name))
        idle.insert(writer->name);
  }
  return idle;
}

// Of nodes that are left in float and refused all the same: what reads them asks for their codes.
std::unordered_set<LayerId> readers_of_refused(const Lint& found, const std::unordered_set<LayerId>& in_float,
                                               const Model& model, const GraphView& view) {
  std::unordered_set<LayerId> refused, readers;
  for (const LintedNode& node : found.nodes)
    if (node.verdict == Verdict::kRefused && in_float.contains(node.node)) refused.insert(node.node);
  for (const Node& node : model.graph.nodes)
    if (refused.contains(node.name))
      for (const std::string& output : node.outputs)
        for (const Node* reader : view.edges.readers(output)) readers.insert(reader->name);
  return readers;
}

// What the rules would have in float: added to options.exclude, and said.
// Throws where a node is refused whatever it is in.
std::string leave_float(QuantizeOptions& options, const Target& target, const Model& model, const GraphView& view,
                        Quantizer& quantizer) {
  std::map<std::string, int64_t> left;         // by operator
  std::unordered_map<LayerId, bool> is_asked;  // others stay as they are whatever the target computes
  for (const Layer& layer : layers(model))
    is_asked[layer.id] = layer.quantizable || std::ranges::count(options.op_types, layer.op_type) > 0;
  std::unordered_set<LayerId> excluded(options.exclude.begin(), options.exclude.end());
  std::string on_codes;
  Lint found;
  for (int round = 0; round < kMostRounds; ++round) {
    found = lint(infer_shapes(quantizer.quantize_excluding(options.exclude)), target);
    if (round == 0) on_codes = first_refused(found);
    const std::unordered_set<LayerId> idle = idle_writers(found, model, view),
                                      readers = readers_of_refused(found, excluded, model, view);
    bool changed = false;
    for (const LintedNode& node : found.nodes) {
      const bool beyond = node.verdict == Verdict::kRefused ||
                          (node.verdict == Verdict::kFloat && !node.reason.empty()) || idle.contains(node.node) ||
                          readers.contains(node.node);
      const auto own = is_asked.find(node.node);
      if (!beyond || own == is_asked.end() || !excluded.insert(node.node).second) continue;
      options.exclude.push_back(node.node);
      if (own->second) ++left[node.op_type];
      changed = true;
    }
    if (!changed) break;
  }
  require_some_form(target, model, on_codes, found);
  std::vector<std::string> counts;
  for (const auto& [op_type, count] : left) counts.push_back(fmt::format("{} {}", count, op_type));
  return counts.empty()
             ? ""
             : fmt::format("{} computes in float, so these stay as they are: {}", target.name, fmt::join(counts, ", "));
}

}  // namespace

std::string take_target_layers(QuantizeOptions& options, const Target& target, const Model& model,
                               const Refusal& refusal) {
  require_model_taken(model, target);
  if (target.floats.empty()) options.float_unlike_concat = false;
  const GraphView view(model);
  take_weights_of_their_own(options, target, model, view);
  take_fixed_outputs(options, target, model);
  Quantizer quantizer(model, formal_ranges(model, view), options);
  std::vector<std::string> said{leave_float(options, target, model, view, quantizer)};
  if (refusal) {
    const RefusedLayers refused = find_refused(
        model, [&](const std::vector<LayerId>& floats) { return quantizer.quantize_excluding(floats); }, refusal,
        options.exclude);
    options.exclude.insert(options.exclude.end(), refused.layers.begin(), refused.layers.end());
    said.push_back(refused.said);
  }
  std::erase(said, "");
  return fmt::format("{}", fmt::join(said, "; "));
}

void require_scheme(const Target& target, const DetailedScheme& scheme, const std::string& asked_by) {
  const bool taken = std::ranges::any_of(target.schemes, [&](const std::string& name) {
    const DetailedScheme listed = parse_detailed_scheme(name);
    return listed.scheme == scheme.scheme && (!listed.fields.bits || listed.fields.bits == scheme.fields.bits);
  });
  if (taken) return;
  const std::string schemes = target.schemes.empty() ? "none, for want of rules and floats"
                                                     : fmt::format("{}", fmt::join(target.schemes, ", "));
  throw Error(Code::kUsage, fmt::format("[quantize] {} ({}) for {} found, which takes {}", asked_by, to_string(scheme),
                                        target.name, schemes));
}

void require_taken(const Model& model, const Target& target) {
  if (const std::string why = internal::first_refusal(model, target); !why.empty())
    throw Error(Code::kInvalidInput, why);
}

}  // namespace seqto
