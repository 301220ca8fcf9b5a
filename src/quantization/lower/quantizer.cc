
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "model/bodies.h"
#include "model/op_traits.h"
#include "model/unneeded.h"
#include "quantization/encode/eligible_layers.h"
#include "quantization/encode/encode_clips.h"
#include "quantization/encode/encode_halves.h"
#include "quantization/encode/encode_qdq.h"
#include "quantization/encode/encode_sums.h"
#include "quantization/encode/encode_weights.h"
#include "quantization/encode/operator_rules.h"
#include "quantization/improve/correct_encoding.h"
#include "quantization/lower/qdq_writer.h"
#include "quantization/lower/writers.h"
#include "quantization/plan/layer_fields.h"
#include "quantization/plan/shared_weights.h"
#include "quantization/plan/validate_options.h"
#include "quantization/plan/weight_sites.h"
#include "seqto/error.h"

namespace seqto {

using namespace internal;

struct Quantizer::Impl {
  Impl(Model m, Ranges r, QuantizeOptions o)
      : model(to_be_written(o.enable_subgraph ? infer_bodies(m) : std::move(m), o)),
        ranges(std::move(r)),
        options(std::move(o)) {}

  static Model to_be_written(Model m, const QuantizeOptions& o) {
    return o.compat_onnxruntime ? std::move(m) : without_export_notes(std::move(m));
  }

  // Those nodes of bodies that are eligible and that `wanted` accepts by name.
  template <class F>
  LayerSet body_layers(Scheme scheme, F wanted) const {
    LayerSet layers;
    if (!options.enable_subgraph) return layers;
    for_each_body_node(model, [&](const Node& n) {
      if (eligible.lists(n, scheme) && wanted(n.name)) layers.insert(n.name);
    });
    return layers;
  }

  // `always`: through the writer of this scheme even where no layer of the plan has it.
  Model quantize(const Plan& plan, Scheme always, const std::vector<Corrections>& corrections);

  // What each node is given, as far as it can have it.
  std::vector<Decision> decisions(const Plan& plan) const;

  // With the layers that it cannot name.
  Plan completed(Plan plan) const;

  static bool any_static(const std::map<Scheme, LayerSet>& layers) {
    return layers.contains(Scheme::kInt8) || layers.contains(Scheme::kInt8wInt16a);
  }

  // `result`, whose static layers are written, with all others.
  Model with_steps(Model result, const std::map<Scheme, LayerSet>& layers, const LayerwiseOptions& layerwise,
                   const std::vector<Corrections>& corrections);

  Encoding corrected(Encoding step, const std::vector<Corrections>& corrections) const {
    for (const Corrections& found : corrections) correct(step, {model, index, options}, found);
    return step;
  }

  // `layers`: of bodies.
  Model quantize_static(const Plan& plan, const std::vector<bool>& selected, LayerSet layers,
                        const LayerwiseOptions& layerwise, const std::vector<Corrections>& corrections) {
    std::vector<StaticLayer> fields = static_layers(model, plan, selected);
    auto any = [&](auto has) { return std::any_of(fields.begin(), fields.end(), has); };
    bool wide = any([](const StaticLayer& l) { return l.wide; });
    bool methods = any([](const StaticLayer& l) { return l.fields && l.fields->method; });
    std::optional<Ranges> own;
    if (methods) own = ranges_of_methods(model, index, ranges, named_ranges, fields);
    const RangeView view(model, index, own ? *own : ranges, selected, options);
    if (options.format == QuantFormat::kQdq) {
      std::optional<QuantizeOptions> effective;
      if (any([](const StaticLayer& l) { return l.wide || l.fields; }))
        effective.emplace(static_options(model, index, options, fields));
      const QuantizeOptions& o = effective ? *effective : options;
      require_opset(index.opset, o);
      encoding = corrected(encode_qdq({model, index, selected, view}, o, cache), corrections);
      return write_qdq(model, index, encoding, o);
    }
    if (wide)
      throw Error(Code::kUsage,
                  "[quantize] scheme int8w_int16a found; QOperator form has 8-bit types only; use --format qdq");
    for (size_t i = 0; i < selected.size(); ++i)
      if (selected[i]) layers.insert(model.graph.nodes[i].name);
    encoding =
        corrected(encode_operators(model, index, layers, {layerwise, &view, cache, write_operator_graph}), corrections);
    return write_operators(model, encoding);
  }

  // onnxruntime quantizes them all the same.
  void note_left_float(const Plan& plan) {
    for (const auto& [layer, id] : eligible.left_float()) {
      auto it = plan.schemes.find(layer);
      if (it != plan.schemes.end() && is_static(it->second)) encoding.deviate(id, layer);
    }
  }

  Model model;
  Ranges ranges;
  std::map<std::string, Ranges> named_ranges;
  QuantizeOptions options;
  GraphView index{model};
  EligibleLayers eligible{model, index, ranges, options};
  std::vector<SharedWeight> shared = shared_weights(model, index);
  WeightCache cache;
  std::set<std::pair<Scheme, LayerOptions>> valid_fields;  // found to be right before
  Encoding encoding;                                       // of the last model
};

namespace {

// A weight that a static layer shares is quantized for all its readers, as onnxruntime does. Layers that the plan gives
// another scheme than static or float read it as it was.
void give_back_weights(Model& result, const Model& original, const GraphView& view,
                       const std::map<LayerId, Scheme>& schemes) {
  std::unordered_map<std::string, const Node*> nodes;
  for (const Node& n : original.graph.nodes) nodes[n.name] = &n;
  std::unordered_set<std::string> present;
  for (const Initializer& i : result.graph.initializers) present.insert(i.name);
  for (Node& node : result.graph.nodes) {
    auto scheme = schemes.find(node.name);
    auto before = nodes.find(node.name);
    if (scheme == schemes.end() || before == nodes.end()) continue;
    if (is_static(scheme->second) || scheme->second == Scheme::kFloat32) continue;
    const auto& inputs = before->second->inputs;
    for (size_t k = 0; k < node.inputs.size() && k < inputs.size(); ++k) {
      if (node.inputs[k] == inputs[k] || !view.is_initializer(inputs[k])) continue;
      node.inputs[k] = inputs[k];
      if (const Tensor& weight = *view.initializers.at(inputs[k]);
          weight.is_float() && present.insert(inputs[k]).second)
        result.graph.initializers.push_back({inputs[k], weight});
    }
  }
}

}  // namespace

std::vector<Decision> Quantizer::Impl::decisions(const Plan& plan) const {
  std::vector<Decision> result(model.graph.nodes.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const LayerId& layer = model.graph.nodes[i].name;
    auto it = plan.schemes.find(layer);
    const Scheme scheme = it != plan.schemes.end() ? it->second : Scheme::kFloat32;
    if (!eligible.can_have(i, scheme)) continue;
    auto fields = plan.options.find(layer);
    const bool any = fields != plan.options.end() && !fields->second.empty();
    result[i] = {scheme, any ? &fields->second : nullptr};
  }
  return result;
}

// No plan names layers that the default list of op types has not. Where options.op_types have them, they go with the
// layers in front of them, and where there are none, with those behind.
Plan Quantizer::Impl::completed(Plan plan) const {
  const auto& offered = default_op_types();
  const auto& nodes = model.graph.nodes;
  const auto is_open = [&](size_t i) {
    return eligible.can_have(i, Scheme::kInt8) && std::ranges::count(offered, nodes[i].op_type) == 0 &&
           !plan.schemes.contains(nodes[i].name);
  };
  const auto join = [&](const Node& node, const Node* neighbour) {
    const auto found = neighbour ? plan.schemes.find(neighbour->name) : plan.schemes.end();
    if (found != plan.schemes.end() && is_static(found->second)) plan.schemes[node.name] = found->second;
  };
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& input : nodes[i].inputs)
      if (is_open(i)) join(nodes[i], index.edges.producer(input));
  for (size_t i = nodes.size(); i-- > 0;)
    for (const std::string& output : nodes[i].outputs)
      for (const Node* reader : index.edges.readers(output))
        if (is_open(i)) join(nodes[i], reader);
  return plan;
}

Model Quantizer::Impl::quantize(const Plan& asked, Scheme always, const std::vector<Corrections>& corrections) {
  encoding = {};
  std::vector<Decision> decided = decisions(asked);
  std::vector<std::string> notes = settle_shared_weights(model, shared, options, decided);
  std::map<Scheme, LayerSet> layers;
  LayerwiseOptions layerwise(options);
  std::vector<bool> selected(decided.size());
  std::map<LayerId, DetailedScheme> written;
  std::optional<Plan> settled;
  if (!notes.empty()) settled = asked;
  const Plan& plan = settled ? *settled : asked;
  for (size_t i = 0; i < selected.size(); ++i) {
    const LayerId& layer = model.graph.nodes[i].name;
    const auto [scheme, fields] = decided[i];
    selected[i] = is_static(scheme);
    if (scheme != Scheme::kFloat32) {
      layers[scheme].insert(layer);
      written[layer] = {scheme, fields ? *fields : LayerOptions{}};
    }
    if (settled) settled->schemes[layer] = scheme;
    if (!fields) continue;
    if (!valid_fields.contains({scheme, *fields})) {
      validate_fields(layer, scheme, *fields, options);
      valid_fields.emplace(scheme, *fields);
    }
    layerwise.set(layer, scheme, *fields);
  }
  auto in_bodies = [&](Scheme scheme) {
    return body_layers(scheme, [&](const LayerId& name) {
      auto it = plan.schemes.find(name);
      return it != plan.schemes.end() && it->second == scheme;
    });
  };
  for (Scheme scheme : {Scheme::kInt8, Scheme::kInt8Dynamic})
    if (LayerSet inner = in_bodies(scheme); !inner.empty()) layers[scheme].merge(inner);
  layers[always];
  const bool has_static = any_static(layers);
  if (has_static) validate_static_types(options);
  Model result = model;
  if (has_static) result = quantize_static(plan, selected, layers[Scheme::kInt8], layerwise, corrections);
  encoding.layers = std::move(written);
  encoding.notes = std::move(notes);
  note_left_float(asked);
  if (has_static) give_back_weights(result, model, index, plan.schemes);
  return with_steps(std::move(result), layers, layerwise, corrections);
}

Model Quantizer::Impl::with_steps(Model result, const std::map<Scheme, LayerSet>& layers,
                                  const LayerwiseOptions& layerwise, const std::vector<Corrections>& corrections) {
  // One after the other, each about the model that the one before left.
  auto lower = [&](Encoding step, auto write) {
    result = write(std::move(result), step);
    encoding.add(std::move(step));
  };
  auto step = [&](Scheme scheme, auto encode, auto write) {
    if (auto it = layers.find(scheme); it != layers.end()) lower(encode(it->second), write);
  };
  if (any_static(layers) && !options.compat_onnxruntime) lower(encode_clips(result), write_clips);
  auto stored = [&](Scheme scheme) {
    return [&, scheme](const LayerSet& names) {
      return corrected(encode_weights(result, scheme, names, layerwise, cache), corrections);
    };
  };
  auto dynamic = [&](const LayerSet& names) {
    const GraphView view(result);
    return encode_operators(result, view, names, {layerwise, nullptr, cache, write_operator_graph});
  };
  auto halves = [&](const LayerSet& names) { return encode_halves(result, names, options.float16, cache); };
  step(Scheme::kInt8Dynamic, dynamic, write_operators);
  step(Scheme::kInt8Weights, stored(Scheme::kInt8Weights), write_weights);
  step(Scheme::kInt4Weights, stored(Scheme::kInt4Weights), write_weights);
  if (options.float16.compute) step(Scheme::kFloat16, halves, write_float16);
  else step(Scheme::kFloat16, stored(Scheme::kFloat16), write_weights);
  const auto dynamic_layers = layers.find(Scheme::kInt8Dynamic);
  const bool on_codes = any_static(layers) || (dynamic_layers != layers.end() && !dynamic_layers->second.empty());
  if (options.sums_for_adds && on_codes) lower(encode_sums(result), write_sums);
  return result;
}

Ranges ranges_under(const Plan& plan, const Model& model, const Ranges& ranges,
                    const std::map<std::string, Ranges>& named) {
  std::vector<bool> selected;
  for (const Node& n : model.graph.nodes) {
    auto it = plan.schemes.find(n.name);
    selected.push_back(it != plan.schemes.end() && is_static(it->second));
  }
  return ranges_of_methods(model, GraphView(model), ranges, named, static_layers(model, plan, selected));
}

Quantizer::Quantizer(Model model, Ranges ranges, QuantizeOptions options) {
  validate_options(model, options);
  impl_ = std::make_unique<Impl>(std::move(model), std::move(ranges), std::move(options));
}
Quantizer::~Quantizer() = default;
Quantizer::Quantizer(Quantizer&&) noexcept = default;

void Quantizer::set_range(const std::string& tensor, Range range) { impl_->ranges[tensor] = std::move(range); }

void Quantizer::add_ranges(const std::string& name, Ranges ranges) {
  impl_->named_ranges.insert_or_assign(name, std::move(ranges));
}

Model Quantizer::quantize(const Plan& plan, const std::vector<Corrections>& corrections) {
  if (impl_->options.op_types.empty()) return impl_->quantize(plan, Scheme::kFloat32, corrections);
  return impl_->quantize(impl_->completed(plan), Scheme::kFloat32, corrections);
}

Model Quantizer::quantize_excluding(const std::vector<std::string>& excluded, Scheme scheme,
                                    const std::vector<Corrections>& corrections) {
  Impl& q = *impl_;
  std::unordered_set<std::string> out(excluded.begin(), excluded.end());
  Plan plan;
  for (const Node& n : q.model.graph.nodes)
    if (q.eligible.lists(n, scheme) && !out.contains(n.name)) plan.schemes[n.name] = scheme;
  for (const LayerId& inner : q.body_layers(scheme, [&](const LayerId& name) { return !out.contains(name); }))
    plan.schemes[inner] = scheme;
  // Writers sort and clean up also where every layer is excluded, as onnxruntime does.
  return q.quantize(plan, scheme, corrections);
}

const Model& Quantizer::model() const { return impl_->model; }

const std::vector<std::string>& Quantizer::deviations() const { return impl_->encoding.deviations; }
const std::vector<std::string>& Quantizer::notes() const { return impl_->encoding.notes; }

std::shared_ptr<const Encoding> Quantizer::encoding() const { return std::make_shared<Encoding>(impl_->encoding); }

const std::map<LayerId, std::vector<std::string>>& Quantizer::layer_deviations() const {
  return impl_->encoding.layer_deviations;
}

}  // namespace seqto
