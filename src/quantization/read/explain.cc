#include "seqto/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_set>

#include "model/bodies.h"
#include "model/op_traits.h"
#include "quantization/plan/layer_names.h"
#include "quantization/read/layer_form.h"

namespace seqto {
namespace {

using namespace internal;
using Kind = InputForm::Kind;

class Explainer {
 public:
  Explainer(const Model& before, const Model& after, const ExplainOptions& options)
      : options_(options),
        floats_(before),
        forms_(after, &floats_.index().types),
        excluded_(options.quantize.exclude.begin(), options.quantize.exclude.end()),
        included_(options.quantize.include.begin(), options.quantize.include.end()) {
    for (const Node& n : before.graph.nodes) names_.insert(n.name);
    const auto& types = options.quantize.op_types.empty() ? default_op_types() : options.quantize.op_types;
    op_types_.insert(types.begin(), types.end());
  }

  LayerReport report(const Node& node) const {
    LayerReport r{node.name, node.op_type, std::string(to_string(Scheme::kFloat32)), {}};
    if (has(node, kPair)) {
      r.reason = "is quantization itself";
      return r;
    }
    const Node* now = forms_.counterpart(node);
    if (!now || stands_for_another(node, *now)) {
      describe_removed(node, now, r);
      return r;
    }
    LayerForm form = forms_.of(*now);
    r.scheme = to_string(form.scheme);
    r.reason = form.scheme == Scheme::kFloat32 ? why_float(node, *now) : form.how;
    if (form.scheme == Scheme::kInt8 && now->op_type == node.op_type) r.reason += float_bias(*now);
    if (std::string why = not_asked_for(node); form.scheme != Scheme::kFloat32 && !why.empty())
      r.reason += fmt::format("; through its neighbours alone: {}", why);
    if (auto it = options_.deviations.find(node.name); it != options_.deviations.end())
      r.reason += fmt::format(" ({})", fmt::join(it->second, ", "));
    return r;
  }

 private:
  bool stands_for_another(const Node& node, const Node& now) const {
    std::string original = original_name(now.name);
    return now.name != node.name && original != node.name && (names_.contains(now.name) || names_.contains(original));
  }

  void describe_removed(const Node& node, const Node* now, LayerReport& r) const {
    if (!now) {
      r.reason = "removed: nothing reads its output any more";
      return;
    }
    LayerForm form = forms_.of(*now);
    r.scheme = to_string(form.scheme);
    r.reason = has(node, kClips) && form.scheme != Scheme::kFloat32
                   ? fmt::format("removed: the quantized output of '{}' already ends where {} cuts off", now->name,
                                 node.op_type)
                   : fmt::format("merged into '{}'", now->name);
  }

  // --- why float, from the plain to the particular

  std::string why_float(const Node& node, const Node& now) const {
    if (std::string why = not_asked_for(node); !why.empty()) return why;
    if (std::string why = floats_.why_no_floats(node); !why.empty()) return why;
    if (std::string why = scheme_needs(node); !why.empty()) return why;
    if (const int64_t needed = integers_from_opset(node); floats_.index().opset < needed)
      return fmt::format("would be invalid at opset {}: {} takes integers from opset {} on", floats_.index().opset,
                         node.op_type, needed);
    return what_is_not_quantized(node, now);
  }

  std::string not_asked_for(const Node& node) const {
    const QuantizeOptions& q = options_.quantize;
    if (excluded_.contains(node.name)) return "excluded by name";
    if (!included_.empty() && !included_.contains(node.name)) return "not among the included";
    Scheme asked = asked_scheme(node);
    bool any_type = q.op_types.empty() && options_.plan && asked != Scheme::kInt8 && asked != Scheme::kFloat32;
    if (!op_types_.contains(node.op_type) && !any_type)
      return q.op_types.empty() ? fmt::format("op type {} is not in the quantizer's list", node.op_type)
                                : fmt::format("op type {} is not among the chosen", node.op_type);
    if (options_.plan && asked == Scheme::kFloat32) return "float32 in the plan";
    return "";
  }

  Scheme asked_scheme(const Node& node) const {
    if (!options_.plan) return Scheme::kInt8;
    auto it = options_.plan->schemes.find(node.name);
    return it == options_.plan->schemes.end() ? Scheme::kFloat32 : it->second;
  }

  // The schemes for weights and the dynamic one.
  std::string scheme_needs(const Node& node) const {
    Scheme scheme = asked_scheme(node);
    if (scheme == Scheme::kInt8 || scheme == Scheme::kInt8wInt16a) return "";
    bool constant = false;
    std::string computed;
    for (size_t k : data_inputs(node)) {
      Kind kind = floats_.input(node.inputs[k]).kind;
      constant = constant || kind == Kind::kConstant || kind == Kind::kHalfConstant;
      if (k > 0 && kind == Kind::kActivation) computed = node.inputs[k];
    }
    if (constant) return fmt::format("{} has no form for this {}", to_string(scheme), node.op_type);
    if (has(node, kProduct | kRecurrent) && !computed.empty())
      return fmt::format("its weight '{}' is computed at run time", computed);
    return fmt::format("has no weights to quantize, and {} changes nothing else here", to_string(scheme));
  }

  std::string what_is_not_quantized(const Node& node, const Node& now) const {
    std::string constants, activations;
    for (size_t k : data_inputs(now)) {
      InputForm form = forms_.input(now.inputs[k]);
      auto add = [&](std::string& list, const std::string& text) { list += (list.empty() ? "" : ", ") + text; };
      if (form.kind == Kind::kActivation) add(activations, origin(now.inputs[k]));
      if (form.kind == Kind::kUnknown) add(activations, fmt::format("'{}' of unknown type", now.inputs[k]));
      if (form.kind == Kind::kConstant) add(constants, fmt::format("'{}'", now.inputs[k]));
    }
    if (!activations.empty() && has(node, kPassThrough))
      return fmt::format("{} is quantized only where what it reads is; not quantized: {}", node.op_type, activations);
    if (!activations.empty()) return fmt::format("not quantized: {}", activations);
    if (!constants.empty()) return fmt::format("its constant {} is not quantized", constants);
    static const std::unordered_set<std::string> kListed(default_op_types().begin(), default_op_types().end());
    if (!kListed.contains(node.op_type))
      return fmt::format("quantized on both sides, but the runtime has no int8 kernel for {}", node.op_type);
    if (has(node, kPassThrough))
      return fmt::format("{} passes on what is quantized when its turn comes; its input is, but for a later layer",
                         node.op_type);
    return "its inputs are quantized, its output is not";
  }

  std::string origin(const std::string& tensor) const {
    const Node* node = floats_.producer(tensor);
    return node ? fmt::format("'{}' ({} '{}')", tensor, node->op_type, node->name) : fmt::format("'{}'", tensor);
  }

  // A quantized layer whose bias did not become int32.
  std::string float_bias(const Node& now) const {
    const auto bias = has(now, kProduct) ? bias_input(now) : std::nullopt;
    if (!bias) return "";
    Kind kind = forms_.input(now.inputs[*bias]).kind;
    if (kind == Kind::kActivation) return "; its bias is computed at run time and stays float";
    if (kind != Kind::kConstant) return "";
    if (!options_.quantize.quantize_bias) return "; its bias stays float as asked";
    return "; its bias stays float: input or weight gives no scale that fits it";
  }

  const ExplainOptions& options_;
  LayerForms floats_, forms_;
  std::unordered_set<std::string> names_, op_types_, excluded_, included_;
};

}  // namespace

std::vector<LayerReport> explain(const Model& before, const Model& after, const ExplainOptions& options) {
  Explainer explainer(before, after, options);
  std::vector<LayerReport> reports;
  for (const Node& n : before.graph.nodes) reports.push_back(explainer.report(n));
  return reports;
}

std::vector<LayerReport> explain(const Model& model) {
  LayerForms forms(model);
  std::unordered_map<std::string, std::string> reasons;
  for (const Layer& layer : layers(model)) reasons[layer.id] = layer.reason.empty() ? "can be quantized" : layer.reason;
  std::vector<LayerReport> reports;
  for (const Node& n : model.graph.nodes) {
    if (forms.is_plumbing(n)) continue;
    LayerForm form = forms.of(n);
    reports.push_back({n.name, n.op_type, std::string(to_string(form.scheme)),
                       form.scheme == Scheme::kFloat32 ? reasons[n.name] : form.how});
  }
  return reports;
}

namespace {

struct Kinds {
  bool qdq = false, qoperator = false, dynamic = false, weights = false, halves = false;
};

// Of the graph and the bodies in it.
void count_forms(const Model& model, QuantizedForm& result, Kinds& kinds) {
  LayerForms forms(model);
  for (const Node& n : model.graph.nodes) {
    for (const Attribute& a : n.attributes)
      if (const auto* opaque = std::get_if<OpaqueAttribute>(&a.value))
        for (const Model& body : internal::parse_bodies(*opaque, model.opsets)) count_forms(body, result, kinds);
    result.quantize_nodes += is_quantize(n);
    result.dequantize_nodes += is_dequantize(n);
    result.operators += is_quantized_operator(n);
    if (forms.is_plumbing(n)) continue;
    LayerForm form = forms.of(n);
    ++result.layers[std::string(to_string(form.scheme))];
    bool is_operator = is_quantized_operator(n);
    if (form.scheme == Scheme::kInt8 || form.scheme == Scheme::kInt8wInt16a)
      (is_operator ? kinds.qoperator : forms.input(n.inputs[0]).dequantize_linear ? kinds.qdq : kinds.qoperator) = true;
    kinds.dynamic |= form.scheme == Scheme::kInt8Dynamic;
    kinds.weights |= form.scheme == Scheme::kInt8Weights || form.scheme == Scheme::kInt4Weights;
    kinds.halves |= form.scheme == Scheme::kFloat16;
  }
}

}  // namespace

QuantizedForm quantized_form(const Model& model) {
  QuantizedForm result;
  Kinds kinds;
  count_forms(model, result, kinds);
  auto add = [&](bool holds, const char* name) {
    if (!holds) return;
    if (!result.form.empty()) result.form.push_back('+');
    result.form.append(name);
  };
  add(kinds.qdq || (result.quantize_nodes > 0 && !kinds.qoperator), "qdq");
  add(kinds.qoperator, "qoperator");
  add(kinds.dynamic, "dynamic");
  add(kinds.weights, "weights");
  add(kinds.halves, "float16");
  if (result.form.empty()) result.form = "float";
  return result;
}

}  // namespace seqto
