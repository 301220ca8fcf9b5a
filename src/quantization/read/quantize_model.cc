// A recipe carried out: rewrite, ranges, quantize, corrections.
#include <fmt/format.h>

#include <algorithm>

#include "quantization/encode/forms.h"
#include "seqto/error.h"
#include "seqto/recipe.h"

namespace seqto {
namespace {

// What belongs to a recipe's own model and samples, or is found anew.
struct Learned {
  Plan plan;  // whose methods have ranges in `named`
  Ranges ranges;
  std::map<std::string, Ranges> named;
  std::vector<SchemeCorrections> shared;
  Corrections own;
};

std::vector<int64_t> calibration_samples(const Recipe& recipe, const Dataset& data) {
  std::vector<int64_t> samples = recipe.calibration_samples;
  std::erase_if(samples, [&](int64_t index) { return index < 0 || index >= data.size(); });
  return samples;
}

Learned stored(const Recipe& recipe) {
  Learned learned{.plan = recipe.plan};
  for (const auto& [method, file] : recipe.ranges)
    (method.empty() ? learned.ranges : learned.named[method]) = load_ranges(file.path);
  for (const StoredFile& file : recipe.corrections) learned.shared.push_back(load_corrections(file.path));
  return learned;
}

Learned found_anew(const Model& model, const Recipe& recipe, const RecipeData& data, std::span<const int64_t> samples,
                   const Env& env) {
  Learned learned{.plan = recipe.plan};
  const auto ranges_of = [&](const CalibrateOptions& options) {
    return calibrate(model, data.data, samples, data.runner, options, env);
  };
  const bool any_static = std::ranges::any_of(recipe.plan.schemes, [](const auto& l) { return is_static(l.second); });
  if (any_static) {
    std::map<std::string, Ranges> named;
    for (const auto& [layer, fields] : recipe.plan.options)
      if (fields.method && !named.contains(*fields.method))
        named[*fields.method] = ranges_of(calibration_named(*fields.method, recipe.calibrate));
    learned.ranges = ranges_under(recipe.plan, model, ranges_of(recipe.calibrate), named);
    for (auto& [layer, fields] : learned.plan.options) fields.method.reset();
  }
  Improved improved = improve(model, std::move(learned.ranges), recipe.quantize, learned.plan, recipe.improvers,
                              data.data, samples, data.runner, env);
  learned.ranges = std::move(improved.ranges);
  learned.own = std::move(improved.corrections);
  return learned;
}

[[noreturn]] void ask_for_data(const char* reason) {
  throw Error(Code::kUsage, fmt::format("[quantize] a plan {} without --data found; give the data, with the flags that "
                                        "`tune` read them with",
                                        reason));
}

// The quantizer itself knows nothing of corrections.
Plan without_corrections(Plan plan) {
  for (auto& [layer, fields] : plan.options) {
    fields.learned_rounding.reset();
    fields.bias_correction.reset();
  }
  return plan;
}

}  // namespace

Model recipe_form(const Model& model, const Recipe& recipe) {
  Model result = model;
  for (int64_t opset : recipe.opsets)
    result = internal::form_of_opset(result, recipe.quantize, opset, recipe.fold_batch_norms).model;
  return result;
}

Quantized quantize_model(const Model& model, const std::string& sha256, const Recipe& recipe,
                         const std::optional<RecipeData>& data, const Env& env) {
  const bool rewrites = recipe.improvers.rewrites(), own_model = sha256 == recipe.model_sha256;
  if (!data && !own_model) ask_for_data("that was made for another model (model_sha256)");
  if (!data && rewrites) ask_for_data("that rewrites the model before calibration");
  std::vector<int64_t> samples;
  if (data) samples = calibration_samples(recipe, data->data);
  Quantized result{.found_anew = !own_model || (data && samples_sha256(data->data, samples) != recipe.samples_sha256)};
  QuantizeOptions options = recipe.quantize;
  result.float_model = rewrites ? rewrite_for(model, recipe.improvers, options, recipe.rewritten_for, data->data,
                                              samples, data->runner, env)
                                : model;
  Learned learned = result.found_anew ? found_anew(result.float_model, recipe, *data, samples, env) : stored(recipe);
  Quantizer quantizer(result.float_model, std::move(learned.ranges), options);
  for (auto& [method, ranges] : learned.named) quantizer.add_ranges(method, std::move(ranges));
  result.model = quantizer.quantize(without_corrections(learned.plan));
  for (const SchemeCorrections& found : learned.shared)
    result.model = apply(found, std::move(result.model), recipe.plan);
  result.model = apply(learned.own, std::move(result.model));
  result.deviations = quantizer.deviations();
  result.notes = quantizer.notes();
  result.layer_deviations = quantizer.layer_deviations();
  return result;
}

}  // namespace seqto
