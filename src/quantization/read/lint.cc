// What a target makes of each node of a file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "quantization/encode/float_results.h"
#include "quantization/plan/model_refusal.h"
#include "quantization/plan/overrides.h"
#include "quantization/read/fused_bias.h"
#include "quantization/read/malformed.h"
#include "quantization/read/rule_refusals.h"
#include "quantization/read/runtime_faults.h"
#include "quantization/read/settled_pairs.h"
#include "seqto/target.h"

namespace seqto {
namespace {

using namespace internal;

constexpr double kRounding = 1e-3;  // relative, of a bias's scale against the product of the others: beyond float's own

bool is_zero(const Tensor* zero_point) {
  for (int64_t i = 0; zero_point && i < zero_point->element_count(); ++i)
    if (element(*zero_point, i) != 0) return false;
  return true;
}

bool equal_values(const Tensor* a, const Tensor* b) {
  return a == b || (a && b && a->dims() == b->dims() && a->equals(*b));
}

// Of a graph with settled pairs.
class Linter {
 public:
  Linter(const Model& model, const SettledPairs& pairs, const Target& target, const Model& file,
         const GraphView& file_view)
      : model_(model), pairs_(pairs), target_(target), file_(file), file_view_(file_view), view_(model) {
    for (const TargetRule& rule : target.rules)
      for (const std::string& op : rule.ops) rules_[op].push_back(&rule);
    if (target.optimizes_pairs) gemms_ = fused_biases(model.graph.nodes, view_.edges, pairs, file.graph);
  }

  // By the nodes' names.
  std::unordered_map<std::string, LintedNode> run() {
    std::unordered_map<std::string, LintedNode> verdicts;
    for (const Node& node : model_.graph.nodes)
      if (!has(node, kPair)) verdicts[node.name] = layer(node);
    for (const Node& node : model_.graph.nodes)
      if (has(node, kPair)) verdicts[node.name] = pair(node);
    for (const Node& node : model_.graph.nodes) {
      LintedNode& linted = verdicts.at(node.name);
      linted.wasted = linted.verdict == Verdict::kFloat && is_wasted(node);
    }
    return verdicts;
  }

 private:
  // --- what stands around a layer

  Codes codes(const Node& pair, bool quantizes) const {
    Codes found{.node = &pair};
    const auto input = [&](size_t i) { return i < pair.inputs.size() ? pair.inputs[i] : std::string(); };
    const std::string coded = quantizes ? (pair.outputs.empty() ? "" : pair.outputs[0]) : input(0);
    if (const auto type = view_.types.find(coded); type != view_.types.end()) found.type = type->second;
    else if (const auto zero = view_.types.find(input(2)); zero != view_.types.end()) found.type = zero->second;
    else found.type = DataType::kUint8;
    const auto filled = [&](const std::string& name) {
      const Tensor* tensor = view_.constant(name);
      return tensor && tensor->element_count() > 0 ? tensor : nullptr;
    };
    found.scale = filled(input(1));
    found.zero_point = filled(input(2));
    found.constant = !quantizes && (view_.constant(coded) || is_folded(coded));
    return found;
  }

  // Runtimes compute it once, when they load the model; of others than those whose passes are known, a constant through
  // QuantizeLinear.
  bool is_folded(const std::string& tensor) const {
    const Node* producer = view_.edges.producer(tensor);
    return pairs_.is_folded(tensor) ||
           (!target_.optimizes_pairs &&
            (producer && is_quantize(*producer) && !producer->inputs.empty() && view_.constant(producer->inputs[0])));
  }

  // Of the DequantizeLinear that makes the tensor, or what it is moved from; nothing for floats.
  std::optional<Codes> read(const std::string& tensor) const {
    const Node* producer = view_.edges.producer(tensor);
    if (producer && carries(*producer)) return read(producer->inputs[0]);
    if (!producer || !is_dequantize(*producer)) return {};
    return codes(*producer, false);
  }

  // Whether it hands codes on as they are, with no pair behind it.
  bool carries(const Node& node) const {
    const auto found = in_integers_.find(&node);
    return found != in_integers_.end() && found->second->as == TargetRule::As::kMoved && !found->second->needs_output;
  }

  // Of the QuantizeLinear that alone reads the tensor.
  std::optional<Codes> written(const std::string& tensor) const {
    const auto& readers = view_.edges.readers(tensor);
    if (readers.empty() || view_.edges.uses(tensor) != readers.size()) return {};
    if (std::ranges::any_of(readers, [](const Node* reader) { return !is_quantize(*reader); })) return {};
    // Several with the same parameters are as good as one: runtimes merge them.
    const Codes first = codes(*readers[0], true);
    for (const Node* reader : readers) {
      const Codes other = codes(*reader, true);
      if (other.type != first.type || !equal_values(other.scale, first.scale) ||
          !equal_values(other.zero_point, first.zero_point))
        return {};
    }
    return first;
  }

  bool is_float(const std::string& tensor) const {
    if (view_.is_float(tensor)) return true;
    const auto type = view_.types.find(tensor);
    return type != view_.types.end() && type->second == DataType::kFloat16;
  }

  // --- rules

  // Where one Relu or Clip reads what it gives, and one node reads that: ONNX Runtime looks for a QuantizeLinear there,
  // and where it finds none it looks no further.
  bool is_clipped(const Node& node) const {
    const Node* reader = target_.optimizes_pairs ? view_.edges.only_reader(node.outputs[0]) : nullptr;
    return reader && has(*reader, kClips) && view_.edges.only_reader(reader->outputs[0]);
  }

  // Why the rule is not met; empty: it is.
  std::string refusal(const Node& node, const TargetRule& rule) const {
    if (rule.as == TargetRule::As::kStored) {
      const std::string why = stored_refusal(node, rule, around_);
      return why.empty() && is_clipped(node) ? "an activation behind it found" : why;
    }
    if (view_.opset < rule.from_opset) return fmt::format("from opset {} on, {} found", rule.from_opset, view_.opset);
    if (const std::string mode = rule.mode.empty() ? "" : node.string_attribute("mode", rule.mode); mode != rule.mode)
      return fmt::format("mode {} found; {} taken", mode, rule.mode);
    std::vector<Codes> activations;
    bool joined = false;  // with the product in front, which gives it floats
    for (const size_t i : data_inputs(node)) {
      if (i >= node.inputs.size() || node.inputs[i].empty()) continue;
      const std::string& tensor = node.inputs[i];
      if (!is_float(tensor)) continue;  // as the condition of a Where
      const auto found = read(tensor);
      if (!found && target_.add_joins_product && is_add(node)) {
        const bool is_result = is_result_for_one(tensor);
        joined |= is_result;
        if (is_result || view_.constant(tensor)) continue;
      }
      if (!found) return fmt::format("its input '{}' is not quantized", tensor);
      if (found->constant && rule.second == TargetRule::Second::kActivation)
        return fmt::format("the constant '{}' on codes found; activations alone taken", tensor);
      if (i == 1 && !found->constant && rule.second == TargetRule::Second::kConstant)
        return "an activation as its second input found; a constant needed";
      const bool weight = i > 0 && has(node, kProduct);
      if (std::string why = weight ? weight_refusal(node, rule, *found) : activation_refusal(rule, *found);
          !why.empty())
        return why;
      const bool unlike =
          rule.equal_inputs && !activations.empty() && !found->constant && !has_parameters_of(activations[0], *found);
      if (unlike) return "inputs of other scales than each other's found; one scale needed";
      if (!weight) activations.push_back(*found);
      if (weight && !activations.empty() && !rule.signed_weights_for.empty() &&
          contains(rule.signed_weights_for, activations[0].type) && found->type != DataType::kInt8)
        return fmt::format("{} activations and {} weights found; int8 weights needed", to_string(activations[0].type),
                           to_string(found->type));
    }
    if (activations.empty()) return joined ? "" : "none of its inputs is a quantized activation";
    if (std::string why = rule.int32_bias ? bias_refusal(node, rule, activations[0]) : ""; !why.empty()) return why;
    if (const auto sum = gemms_.find(&node); sum != gemms_.end()) return gemm_refusal(*sum->second, activations);
    return output_refusal(node, rule, activations);
  }

  bool is_result_for_one(const std::string& tensor) const {
    return is_for_one_reader(tensor, view_, [this](const Node& n) { return in_integers_.contains(&n); });
  }

  std::string gemm_refusal(const Node& sum, std::span<const Codes> activations) const {
    constexpr const char* kOne = "it and the Add behind are one Gemm to the runtime";
    const auto found = rules_.find("Gemm");
    if (found == rules_.end()) return kOne;
    const TargetRule& rule = *found->second.front();
    if (rule.int32_bias && !rule.quantizes_constants) return fmt::format("{}, whose bias is not int32 codes", kOne);
    if (!written(sum.outputs[0])) return fmt::format("{}, whose output is not quantized", kOne);
    return output_refusal(sum, rule, activations);
  }

  std::string bias_refusal(const Node& node, const TargetRule& rule, const Codes& activation) const {
    const auto bias = bias_input(node);
    if (!bias) return {};
    const auto found = read(node.inputs[*bias]);
    if (!found || found->type != DataType::kInt32)
      return fmt::format("a bias of {} found; int32 codes needed", found ? to_string(found->type) : "floats");
    if (has_factors(node) && !rule.bias_beside_factors) return "a bias beside a factor found";
    const auto weight = read(node.inputs[1]);
    const Tensor *of_weight = weight ? weight->scale : nullptr, *scale = found->scale;
    if (!target_.optimizes_pairs || !is_conv(node) || !scale || !of_weight || !activation.scale) return {};
    for (int64_t i = 0; i < scale->element_count(); ++i) {
      const double product =
          element(*activation.scale, 0) * element(*of_weight, std::min(i, of_weight->element_count() - 1));
      if (product > std::numeric_limits<float>::min() && std::abs(element(*scale, i) - product) > kRounding * product)
        return "a bias with another scale than the products found";
    }
    return {};
  }

  static bool has_parameters_of(const Codes& a, const Codes& b) {
    return equal_values(a.scale, b.scale) && equal_values(a.zero_point, b.zero_point);
  }

  std::string activation_refusal(const TargetRule& rule, const Codes& found) const {
    if (!contains(rule.activations, found.type))
      return fmt::format("{} activations found; {} taken", to_string(found.type), types_text(rule.activations));
    if (found.scale && found.scale->element_count() > 1) return "activations with a scale for each channel found";
    return common_refusal(rule, found, rule.symmetric_activations, "activations");
  }

  std::string weight_refusal(const Node& node, const TargetRule& rule, const Codes& found) const {
    if (!contains(rule.weights, found.type))
      return fmt::format("{} weights found; {} taken", to_string(found.type), types_text(rule.weights));
    const bool per_channel = found.scale && found.scale->element_count() > 1;
    if (per_channel && !rule.per_channel) return "weights with a scale for each channel found; one for all taken";
    if (found.scale && found.scale->dims().size() > 1 && found.scale->dims()[0] > 1) return "weights in blocks found";
    if (per_channel && is_gemm(node) && target_.optimizes_pairs) {
      const auto* dims = pairs_.dims(found.node->inputs[0]);
      const size_t rank = dims ? dims->size() : 0;
      if (const auto own = output_axis(node, rank);
          own && normalized_axis(found.node->int_attribute("axis", 1), rank) != static_cast<int64_t>(*own))
        return "scales along another axis than the outputs found";
    }
    const Tensor* weight = view_.constant(found.node->inputs[0]);
    if (const Node* quantize = view_.edges.producer(found.node->inputs[0]); !weight && quantize)
      weight = view_.constant(quantize->inputs[0]);
    if (std::string why = weight ? size_refusal(node, rule, weight->dims()) : ""; !why.empty()) return why;
    if (std::string why = row_refusal(node, rule, around_); !why.empty()) return why;
    return common_refusal(rule, found, rule.symmetric_weights, "weights");
  }

  std::string fault(const Node& node, bool in_integers) const {
    if (!target_.optimizes_pairs) return {};
    if (target_.refuses_clips_of_inputs && pairs_.is_repeated_clip_of_input(node.name))
      return "a Clip of an input that the QuantizeLinear behind it repeats found (--exclude what reads it)";
    std::string found = fault_of(node, around_, in_integers);
    const auto rules = rules_.find(node.op_type);
    const bool moves = rules != rules_.end() && std::ranges::any_of(rules->second, &TargetRule::propagates);
    if (found.empty() && moves && target_.signed_pairs_become_unsigned)
      found = fault_of_moved_pair(node, around_, file_, file_view_);
    return found;
  }

  std::string common_refusal(const TargetRule& rule, const Codes& found, bool symmetric, const char* what) const {
    if (symmetric && !is_zero(found.zero_point)) return fmt::format("{} with a zero point found; 0 needed", what);
    if (!rule.power_of_two || !found.scale) return {};
    for (int64_t i = 0; i < found.scale->element_count(); ++i)
      if (const double log = std::log2(element(*found.scale, i)); log != std::round(log))
        return fmt::format("a scale of {} of {} found; a power of two needed", element(*found.scale, i), what);
    return {};
  }

  std::string output_refusal(const Node& node, const TargetRule& rule, std::span<const Codes> activations) const {
    std::optional<Codes> first;
    const DataType type = activations[0].type;
    for (const std::string& output : node.outputs) {
      if (output.empty()) continue;
      const auto found = written(output);
      const bool some = std::ranges::any_of(view_.edges.readers(output), [](const Node* n) { return is_quantize(*n); });
      if (rule.as == TargetRule::As::kMoved && !rule.needs_output) continue;  // codes come out, whatever reads them
      if (!found && (rule.needs_output || some))
        return fmt::format("its output '{}' is not quantized, or for some readers alone", output);
      if (!found) return is_clipped(node) ? "an activation behind it found" : "";
      for (const Codes& a : activations)
        if (rule.same_types && (a.type != type || found->type != type))
          return fmt::format("{} in and {} out found; one type needed", to_string(a.type), to_string(found->type));
      if (std::string why = activation_refusal(rule, *found); !why.empty()) return "output: " + why;
      if (rule.as == TargetRule::As::kMoved && !has_parameters_of(activations[0], *found))
        return "other parameters behind it than in front";
      if (!first) first = found;
    }
    if (!first) return {};
    if (rule.output_scale && (!first->scale || std::abs(element(*first->scale, 0) / *rule.output_scale - 1) > 1e-5))
      return fmt::format("an output scale of {} found; {} needed",
                         first->scale ? fmt::format("{}", element(*first->scale, 0)) : "run time", *rule.output_scale);
    const double zero = first->zero_point ? element(*first->zero_point, 0) : 0;
    if (rule.output_zero_point && zero != static_cast<double>(*rule.output_zero_point))
      return fmt::format("an output zero point of {} found; {} needed", zero, *rule.output_zero_point);
    return {};
  }

  // --- verdicts

  LintedNode layer(const Node& node) {
    if (is_quantized_operator(node)) return on_codes(node);
    if (const auto product = gemms_.find(&node);
        is_add(node) && product != gemms_.end() && in_integers_.contains(product->second))
      return {.verdict = Verdict::kIntegers, .reason = "one Gemm with the MatMul before it"};
    std::string reason;
    if (const auto rules = rules_.find(node.op_type); rules != rules_.end() && node.domain.empty()) {
      for (const TargetRule* rule : rules->second) {
        std::string why = refusal(node, *rule);
        if (why.empty()) {
          if (why = fault(node, true); !why.empty()) return {.verdict = Verdict::kRefused, .reason = why};
          in_integers_.emplace(&node, rule);
          return {.verdict = Verdict::kIntegers,
                  .reason = rule->as == TargetRule::As::kMoved ? "its codes pass as they are" : ""};
        }
        if (reason.empty()) reason = rule->why.empty() ? why : fmt::format("{} ({})", why, rule->why);
      }
    }
    if (joins_layer(node)) {
      joined_.insert(&node);
      return {.verdict = Verdict::kFused, .reason = "runs in the kernel of the layer before it"};
    }
    if (std::string why = fault(node, false); !why.empty()) return {.verdict = Verdict::kRefused, .reason = why};
    const auto data = data_inputs(node);
    const bool floats =
        std::ranges::any_of(data, [&](size_t i) { return i < node.inputs.size() && is_float(node.inputs[i]); }) ||
        std::ranges::any_of(node.outputs, [&](const auto& o) { return is_float(o); });
    if (!floats || is_constant(node) || is_identity(node)) return {.verdict = Verdict::kOther};
    if (std::ranges::all_of(node.outputs, [&](const auto& o) { return pairs_.is_folded(o); }))
      return {.verdict = Verdict::kOther, .reason = "of constants: computed once"};
    if (node.domain.empty() && std::ranges::count(target_.lacks, node.op_type) > 0)
      return {.verdict = Verdict::kRefused, .reason = "the target has no operator " + node.op_type};
    const bool quantized = std::ranges::any_of(data, [&](size_t i) {
      const auto found = i < node.inputs.size() ? read(node.inputs[i]) : std::nullopt;
      return found && !found->constant;
    });
    if (reason.empty()) reason = "no rule of the target takes it in integers";
    if (target_.floats.empty())
      return {.verdict = Verdict::kRefused,
              .reason = reason + "; the target computes nothing in float" +
                        (is_shape(node) ? "; sizes for open dimensions (seqto prepare --dim) take it away" : "")};
    return {.verdict = Verdict::kFloat, .reason = quantized ? reason : ""};
  }

  // A Relu or Clip of what a product or an Add in integers gives it alone.
  bool joins_layer(const Node& node) const {
    if (!target_.clips_join_layers || !has(node, kClips) || !view_.edges.only_reader(node.inputs[0])) return false;
    const Node* before = view_.edges.producer(node.inputs[0]);
    return before && in_integers_.contains(before) && (has(*before, kProduct) || is_add(*before));
  }

  // Whether a layer in integers reads the tensor, or what it is moved to.
  bool is_needed(const std::string& tensor) const {
    return std::ranges::any_of(view_.edges.readers(tensor), [&](const Node* reader) {
      return carries(*reader) ? std::ranges::any_of(reader->outputs, [&](const auto& o) { return is_needed(o); })
                              : in_integers_.contains(reader);
    });
  }

  // Whether no layer in integers writes the codes that it reads, nor reads them.
  bool is_idle(const Node& dequantize) const {
    const Node* quantize = view_.edges.producer(dequantize.inputs[0]);
    const Node* writer = quantize && is_quantize(*quantize) ? view_.edges.producer(quantize->inputs[0]) : nullptr;
    if (writer && in_integers_.contains(writer)) return false;
    for (const Node* other : view_.edges.readers(dequantize.inputs[0]))
      if (std::ranges::any_of(other->outputs, [&](const std::string& output) { return is_needed(output); }))
        return false;
    return true;
  }

  // Of a layer in float: weights of a product are in codes beside codes of its input, or those of its input serve none.
  bool is_wasted(const Node& node) const {
    bool weights = false, activations = false, idle = false;
    for (const size_t i : data_inputs(node)) {
      const auto found = i < node.inputs.size() ? read(node.inputs[i]) : std::nullopt;
      if (!found) continue;
      if (found->constant) weights |= i > 0 && has(node, kProduct);
      else activations = true, idle |= is_idle(*found->node);
    }
    return (weights && activations) || idle;
  }

  LintedNode on_codes(const Node& node) const {
    if (std::ranges::count(target_.operators, node.op_type) > 0) {
      const std::string why = fault_of_blocks(node, view_, target_);
      return {.verdict = why.empty() ? Verdict::kIntegers : Verdict::kRefused, .reason = why};
    }
    return {.verdict = Verdict::kRefused,
            .reason = fmt::format("the target has no operator {}{}", node.op_type,
                                  target_.rules.empty() ? ""
                                                        : "; QuantizeLinear and DequantizeLinear around the float "
                                                          "operator are its form (--format qdq)")};
  }

  LintedNode pair(const Node& node) const {
    const auto all_in_integers = [&](const std::vector<const Node*>& nodes) {
      return !nodes.empty() && std::ranges::all_of(nodes, [&](const Node* n) { return in_integers_.contains(n); });
    };
    if (node.outputs.empty() || node.inputs.empty()) return {.verdict = Verdict::kOther};
    const std::string& output = node.outputs[0];
    if (is_quantize(node)) {
      if (is_folded(output)) return {.verdict = Verdict::kFused, .reason = "of a constant: computed once"};
      const Node* producer = view_.edges.producer(node.inputs[0]);
      const bool in_kernel = producer && (in_integers_.contains(producer) || joined_.contains(producer));
      const auto moved = producer && carries(*producer) ? read(node.inputs[0]) : std::nullopt;
      if (moved && !has_parameters_of(*moved, codes(node, true)))
        return {.verdict = Verdict::kConversion, .reason = "of codes with other parameters"};
      if (in_kernel && written(node.inputs[0])) return {.verdict = Verdict::kFused};
      return {.verdict = Verdict::kConversion, .reason = producer ? "behind a layer in float" : "of an input"};
    }
    if (target_.float_biases && codes(node, false).type == DataType::kInt32)
      return {.verdict = Verdict::kRefused, .reason = "int32 codes found; floats needed (--no-quantize-bias)"};
    const auto& readers = view_.edges.readers(output);
    if (all_in_integers(readers) && view_.edges.uses(output) == readers.size()) return {.verdict = Verdict::kFused};
    for (const Node* reader : readers)
      if (!in_integers_.contains(reader))
        return {.verdict = Verdict::kConversion, .reason = fmt::format("read by '{}' in float", reader->name)};
    return {.verdict = Verdict::kConversion, .reason = "an output of the model"};
  }

  const Model& model_;
  const SettledPairs& pairs_;
  const Target& target_;
  const Model& file_;  // as it is, with its pairs where it has them
  const GraphView& file_view_;
  GraphView view_;
  std::unordered_map<std::string, std::vector<const TargetRule*>> rules_;
  std::unordered_map<const Node*, const TargetRule*> in_integers_;
  std::unordered_set<const Node*> joined_;  // that run in the kernel of one of these
  std::unordered_map<const Node*, const Node*> gemms_;
  const Surroundings around_{view_, pairs_, [this](const std::string& tensor) { return read(tensor); },
                             [this](const std::string& tensor) { return written(tensor); }};
};

// Of a node of the file, by what became of it.
LintedNode verdict_of(const Node& node, const SettledPairs& pairs,
                      const std::unordered_map<std::string, LintedNode>& verdicts) {
  if (!has(node, kPair)) {
    if (const auto names = pairs.now(node.name); !names.empty()) return verdicts.at(names[0]);
    if (has(node, kClips)) return {.verdict = Verdict::kFused, .reason = "the QuantizeLinear behind it does the same"};
    return {.verdict = Verdict::kOther, .reason = "nothing reads it"};
  }
  LintedNode result{.verdict = Verdict::kFused, .reason = "the runtime leaves it out"};
  for (const std::string& name : pairs.now(node.name)) {
    const LintedNode& found = verdicts.at(name);
    if (found.verdict != Verdict::kFused) return found;
    result = found;
  }
  return result;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  static constexpr std::string_view kNames[] = {"integers", "fused", "conversion", "float", "other", "refused"};
  return kNames[static_cast<size_t>(verdict)];
}

int64_t Lint::count(Verdict verdict) const {
  return std::ranges::count_if(nodes, [&](const LintedNode& n) { return n.verdict == verdict; });
}

int64_t Lint::wasted() const { return std::ranges::count_if(nodes, &LintedNode::wasted); }

Lint lint(const Model& model, const Target& target) {
  SettledPairs pairs(model, target);
  const GraphView view(model);
  std::unordered_map<std::string, LintedNode> verdicts;
  std::unordered_set<std::string> fused;
  do {
    const Model now = pairs.model();
    verdicts = Linter(now, pairs, target, model, view).run();
    fused.clear();
    for (const auto& [name, linted] : verdicts)
      if (linted.verdict == Verdict::kFused) fused.insert(name);
  } while (pairs.go_on(fused));
  Lint result{.target = target.name, .known = target.known};
  const std::string of_model = model_refusal(model, target);
  for (const Node& node : model.graph.nodes) {
    LintedNode linted = verdict_of(node, pairs, verdicts);
    std::string why = malformed(node, view);
    if (why.empty() && linted.verdict != Verdict::kOther) why = of_model;
    if (!why.empty()) linted = {.verdict = Verdict::kRefused, .reason = why};
    linted.node = node.name;
    linted.op_type = node.op_type;
    result.nodes.push_back(std::move(linted));
  }
  return result;
}

}  // namespace seqto
