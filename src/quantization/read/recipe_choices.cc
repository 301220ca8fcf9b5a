// What a recipe quantizes, and what of that takes samples.
#include <algorithm>

#include "seqto/error.h"
#include "seqto/recipe.h"

namespace seqto {

std::vector<std::string> take_mode(Recipe& recipe, const Model& model, const std::string& mode, Scheme stored) {
  if (mode == "static" || mode == "dynamic") {
    recipe.everywhere = mode == "dynamic" ? Scheme::kInt8Dynamic : Scheme::kInt8;
    recipe.rewritten_for = recipe.everywhere;
    // What the operators that quantize at run time give.
    if (mode == "dynamic") recipe.quantize.activation_type = DataType::kUint8;
    require_quantizable(model, *recipe.everywhere);
    return {};
  }
  if (mode == "float16") {
    recipe.plan = uniform_plan(model, Scheme::kFloat16);
    return {};
  }
  if (mode != "weights")
    throw Error(Code::kUsage, "[quantize] mode '" + mode + "' found; static, dynamic, weights or float16 expected");
  recipe.plan = uniform_plan(model, stored);
  std::vector<std::string> notes = widen_tied_weights(recipe.plan, model);
  if (recipe.plan.schemes.empty())
    throw Error(Code::kInvalidInput,
                "[quantize] nothing to quantize: no layer of the model reads a constant weight; choose a model with "
                "such layers");
  return notes;
}

void take_plan(Recipe& recipe, Plan plan, Model& model) {
  recipe.plan = std::move(plan);
  recipe.rewritten_for.reset();
  if (!recipe.plan.options.empty()) model = tunable_form(model, recipe.quantize, recipe.plan).model;
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
