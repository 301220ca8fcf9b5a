// What a recipe quantizes, and what of that takes samples.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "model/bodies.h"
#include "model/op_traits.h"
#include "quantization/plan/unknown_layers.h"
#include "quantization/read/computed_weights.h"
#include "quantization/read/random_nodes.h"
#include "seqto/error.h"
#include "seqto/recipe.h"

namespace seqto {
namespace {

// A convolution that quantizes what it reads takes up to 24 times as long as in float. Says what was done.
std::vector<std::string> spare_convolutions(Recipe& recipe, const Model& model) {
  const QuantizeOptions& o = recipe.quantize;
  if (!o.op_types.empty() || !o.include.empty()) return {};
  Plan plan = uniform_plan(model, Scheme::kInt8Dynamic);
  int spared = 0;
  for (const Node& node : model.graph.nodes) {
    const auto it = plan.schemes.find(node.name);
    if (it == plan.schemes.end() || !internal::is_conv(node)) continue;
    it->second = Scheme::kInt8Weights;
    ++spared;
  }
  if (spared == 0) return {};
  recipe.everywhere.reset();
  recipe.plan = std::move(plan);
  return {
      fmt::format("{} convolutions have weights alone in int8: quantized while they run they take up to 24 times as "
                  "long; --op-types-to-quantize Conv,MatMul asks for it",
                  spared)};
}

// By the schemes that the recipe has come to.
std::vector<std::string> kept_in_float(const Recipe& recipe, const Model& model) {
  std::vector<Scheme> schemes;
  if (recipe.everywhere) schemes.push_back(*recipe.everywhere);
  else
    for (const auto& [layer, scheme] : recipe.plan.schemes)
      if (std::ranges::count(schemes, scheme) == 0) schemes.push_back(scheme);
  std::vector<std::string> notes = internal::kept_constants(model, schemes);
  if (std::string note = internal::kept_bodies(model); !note.empty() && !recipe.quantize.enable_subgraph)
    notes.push_back(std::move(note));
  return notes;
}

// Those that the mode has no operator for.
std::vector<std::string> recurrent_layers(const Model& model, Scheme scheme) {
  const std::vector<std::string>& listed = default_op_types(scheme);
  const auto count = std::ranges::count_if(model.graph.nodes, [&](const Node& node) {
    return internal::has(node, internal::kRecurrent) && std::ranges::count(listed, node.op_type) == 0;
  });
  if (count == 0) return {};
  return {
      fmt::format("recurrent layers that stay float in this mode: {}; --mode weights stores theirs in 8 bits", count)};
}

std::vector<std::string> both(std::vector<std::string> notes, std::vector<std::string> more) {
  std::ranges::move(more, std::back_inserter(notes));
  return notes;
}

}  // namespace

bool names_types(const std::string& mode, const std::function<bool(const char*)>& is_named) {
  const auto names_type = [&](const char* field) {
    return is_named(field) && !(mode == "dynamic" && field == std::string_view("per_channel"));
  };
  return std::ranges::any_of(kTypeFields, names_type) || std::ranges::any_of(kFormFields, is_named);
}

bool improves_on_data(const std::string& mode, bool types_named) {
  return mode == "static" ? !types_named : mode == "dynamic" || mode == "weights";
}

Scheme scheme_of(const std::string& mode, Scheme stored) {
  if (mode == "static") return Scheme::kInt8;
  if (mode == "dynamic") return Scheme::kInt8Dynamic;
  if (mode == "weights") return stored;
  if (mode == "float16") return Scheme::kFloat16;
  throw Error(Code::kUsage, "[quantize] mode '" + mode + "' found; static, dynamic, weights or float16 expected");
}

std::vector<std::string> take_mode(Recipe& recipe, const Model& model, const std::string& mode, Scheme stored,
                                   bool best) {
  const Scheme scheme = scheme_of(mode, stored);
  if (mode == "static" || mode == "dynamic") {
    recipe.everywhere = scheme;
    recipe.rewritten_for = recipe.everywhere;
    // What the operators that quantize at run time give.
    if (mode == "dynamic") recipe.quantize.activation_type = DataType::kUint8;
    const bool in_bodies =
        recipe.quantize.enable_subgraph && std::ranges::any_of(model.graph.nodes, internal::has_body);
    if (!in_bodies) require_quantizable(model, *recipe.everywhere);
    std::vector<std::string> notes = both(internal::random_nodes(model), recurrent_layers(model, *recipe.everywhere));
    if (best && mode == "dynamic") notes = both(std::move(notes), spare_convolutions(recipe, model));
    return both(std::move(notes), kept_in_float(recipe, model));
  }
  if (mode == "float16") {
    if (std::ranges::none_of(model.graph.initializers, [](const Initializer& i) { return i.tensor.is_float(); }))
      require_quantizable(model);
    recipe.plan = uniform_plan(model, scheme);
    return internal::random_nodes(model);
  }
  recipe.plan = uniform_plan(model, scheme);
  std::vector<std::string> notes = both(widen_tied_weights(recipe.plan, model), kept_in_float(recipe, model));
  if (recipe.plan.schemes.empty()) require_quantizable(model);
  if (recipe.plan.schemes.empty())
    throw Error(Code::kInvalidInput,
                "[quantize] nothing to quantize: no layer of the model reads a constant weight; choose a model with "
                "such layers");
  return both(std::move(notes), internal::random_nodes(model));
}

std::vector<std::string> take_plan(Recipe& recipe, Plan plan, Model& model) {
  recipe.plan = std::move(plan);
  recipe.rewritten_for.reset();
  std::vector<std::string> notes;
  if (std::string note = internal::unknown_layers(recipe.plan, model).note; !note.empty())
    notes.push_back(std::move(note));
  if (!recipe.plan.options.empty()) model = tunable_form(model, recipe.quantize, recipe.plan).model;
  return notes;
}

SamplesFor samples_for(const Recipe& recipe) {
  if (recipe.improvers.rewrites() || recipe.improvers.corrects()) return SamplesFor::kImprovers;
  if (!recipe.everywhere) {
    if (asks(recipe.plan, ImproverKind::kModel)) return SamplesFor::kPlannedRewriting;
    if (asks(recipe.plan, ImproverKind::kEncoding)) return SamplesFor::kPlannedCorrections;
    if (std::ranges::any_of(recipe.plan.options, [](const auto& layer) { return layer.second.method.has_value(); }))
      return SamplesFor::kPlannedMethods;
  }
  const bool any_static = recipe.everywhere == Scheme::kInt8 ||
                          std::ranges::any_of(recipe.plan.schemes, [](const auto& l) { return is_static(l.second); });
  return any_static ? SamplesFor::kRanges : SamplesFor::kNothing;
}

}  // namespace seqto
