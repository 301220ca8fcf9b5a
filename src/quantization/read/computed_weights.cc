#include "quantization/read/computed_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>

#include "model/bodies.h"
#include "model/graph_view.h"
#include "model/known_shapes.h"
#include "model/op_traits.h"
#include "quantization/plan/weight_sites.h"

namespace seqto::internal {
namespace {

constexpr double kMuch = 0.25;  // of the model

// What `seqto prepare` computes once.
struct Computed {
  std::unordered_set<std::string> tensors;
  std::unordered_set<const Node*> nodes;
};

Computed computed_constants(const Model& model, const GraphView& view) {
  Computed found;
  const auto is_known = [&](const std::string& name) {
    return name.empty() || view.constant(name) || found.tensors.contains(name);
  };
  for (const Node& node : model.graph.nodes) {
    if (node.inputs.empty() || has(node, kRandom | kConverts) || has_body(node)) continue;
    if (!std::ranges::all_of(node.inputs, is_known)) continue;
    found.nodes.insert(&node);
    found.tensors.insert(node.outputs.begin(), node.outputs.end());
  }
  return found;
}

int64_t float_bytes(const Tensor* constant) {
  return constant && constant->is_float() ? static_cast<int64_t>(constant->bytes().size()) : 0;
}

// Of a float32 tensor; nothing where its shape is open.
std::optional<int64_t> bytes_of_shape(const std::vector<Dimension>* shape) {
  if (!shape) return {};
  int64_t bytes = sizeof(float);
  for (const Dimension& d : *shape)
    if (d.value < 0 || __builtin_mul_overflow(bytes, d.value, &bytes)) return {};
  return bytes;
}

// By as much the model is smaller with the values in place of what they are computed from; 0 where that is not known.
int64_t saved_by_computing(const Model& model, const GraphView& view, const Computed& computed) {
  const auto shapes = known_shapes(model.graph);
  std::unordered_set<std::string> given, made, others;
  for (const Node& node : model.graph.nodes) {
    const bool goes = computed.nodes.contains(&node);
    for (const std::string& name : node.inputs)
      if (computed.tensors.contains(name) && !goes) made.insert(name);
      else (goes ? given : others).insert(name);
  }
  int64_t saved = 0;
  for (const std::string& name : given)
    if (!others.contains(name) && !view.captured.contains(name)) saved += float_bytes(view.constant(name));
  for (const std::string& name : made) {
    const auto it = shapes.find(name);
    const auto bytes = bytes_of_shape(it == shapes.end() ? nullptr : it->second);
    if (!bytes) return 0;
    saved -= *bytes;
  }
  return saved;
}

std::string to_prepare(int64_t layers, double saved) {
  if (layers > 0)
    return fmt::format(
        "the weights of {} layer{} are computed from constants, as by weight normalization, and stay "
        "float; `seqto prepare MODEL -o OUT` makes constants of them",
        layers, layers == 1 ? "" : "s");
  return fmt::format(
      "{:.0f} % of the model are constants that serve to compute smaller ones; `seqto prepare MODEL -o OUT` stores "
      "those instead",
      100 * saved);
}

std::string without_scheme(const Model& model, const GraphView& view, const Computed& computed,
                           std::span<const Scheme> schemes, int64_t model_bytes) {
  if (std::ranges::count(schemes, Scheme::kFloat16) > 0) return {};  // it holds any
  const auto is_short = [](Scheme s) { return s != Scheme::kFloat32 && s != Scheme::kFloat16; };
  const std::vector<Layer> all = layers(model);
  std::unordered_set<std::string> counted;
  std::set<std::string> op_types;
  int64_t bytes = 0;
  bool any = false;  // another scheme holds some
  for (size_t i = 0; i < all.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    const auto is_asked = [&](Scheme s) { return is_short(s) && std::ranges::count(schemes, s) > 0; };
    if (all[i].weight_bytes == 0 || computed.nodes.contains(&node) || has(node, kRecurrent)) continue;
    if (std::ranges::any_of(all[i].schemes, is_asked)) continue;
    for (const std::string& name : node.inputs)
      if (counted.insert(name).second) bytes += float_bytes(view.constant(name));
    op_types.insert(node.op_type);
    any |= std::ranges::any_of(all[i].schemes, is_short);
  }
  const double share = static_cast<double>(bytes) / static_cast<double>(model_bytes);
  if (share < kMuch) return {};
  return fmt::format("{:.0f} % of the model are constants of {}, for which there is no scheme {}", 100 * share,
                     fmt::join(op_types, ", "), any ? "among those asked for" : "but float16");
}

}  // namespace

int layers_of_computed_weights(const Model& model) {
  const GraphView view(model);
  const Computed computed = computed_constants(model, view);
  const TransposedWeights turned =
      transposed_weights(model, [&](const std::string& name) { return view.constant(name); });
  return static_cast<int>(std::ranges::count_if(model.graph.nodes, [&](const Node& node) {
    return !computed.nodes.contains(&node) && has(node, kProduct) && node.inputs.size() > 1 &&
           !turned.contains(node.inputs[1]) && computed.tensors.contains(node.inputs[1]);
  }));
}

std::vector<std::string> kept_constants(const Model& model, std::span<const Scheme> schemes) {
  const GraphView view(model);
  const Computed computed = computed_constants(model, view);
  const int64_t bytes = serialized_size(model);
  std::vector<std::string> said;
  // Static layers take a computed weight for an activation.
  const bool all_static = std::ranges::all_of(schemes, is_static);
  const int layers = all_static ? 0 : layers_of_computed_weights(model);
  const double saved = static_cast<double>(saved_by_computing(model, view, computed)) / static_cast<double>(bytes);
  if (layers > 0 || saved >= kMuch) said.push_back(to_prepare(layers, saved));
  if (std::string text = without_scheme(model, view, computed, schemes, bytes); !text.empty())
    said.push_back(std::move(text));
  return said;
}

std::string kept_bodies(const Model& model) {
  constexpr double kSome = 0.05;  // of the model
  const double share = static_cast<double>(bytes_of_bodies(model)) / static_cast<double>(serialized_size(model));
  if (share < kSome) return {};
  return fmt::format("{:.0f} % of the model lie in bodies of If, Loop or Scan; these stay as they are", 100 * share);
}

}  // namespace seqto::internal
