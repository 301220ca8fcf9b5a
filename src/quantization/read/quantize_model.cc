// A recipe carried out: rewrite, ranges, quantize, corrections.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "quantization/encode/encoding.h"
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
    return calibrate(model, {data.data, samples, data.runner, env}, options);
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
  Improved improved = improve({model, learned.ranges, recipe.quantize, learned.plan}, recipe.improvers,
                              {data.data, samples, data.runner, env});
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

Quantized finished(const Quantizer& quantizer, Model model, Model float_model, Corrections corrections) {
  return {.model = std::move(model),
          .float_model = std::move(float_model),
          .deviations = quantizer.deviations(),
          .notes = quantizer.notes(),
          .layer_deviations = quantizer.layer_deviations(),
          .encoding = quantizer.encoding(),
          .corrections = std::move(corrections)};
}

}  // namespace

std::string encoding_to_json(const Quantized& made) {
  nlohmann::json encoding = internal::to_json(*made.encoding);
  for (const auto& [layer, rounded] : made.corrections.rounding)
    encoding["corrections"]["codes"][layer] = internal::shape_to_json(rounded.codes);
  for (const auto& [layer, shifts] : made.corrections.shifts) encoding["corrections"]["biases"][layer] = shifts;
  return encoding.dump(1);
}

Quantized quantize_model(Model float_model, Improved found, const QuantizeOptions& options,
                         const std::optional<Plan>& plan, Scheme otherwise) {
  Quantizer quantizer(float_model, std::move(found.ranges), options);
  Model model = plan ? quantizer.quantize(*plan) : quantizer.quantize_excluding({}, otherwise);
  model = apply(found.corrections, std::move(model));
  return finished(quantizer, std::move(model), std::move(float_model), std::move(found.corrections));
}

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
  const bool anew = !own_model || (data && samples_sha256(data->data, samples) != recipe.samples_sha256);
  QuantizeOptions options = recipe.quantize;
  Model float_model = rewrites ? rewrite_for(model, recipe.improvers, options, recipe.rewritten_for,
                                             {data->data, samples, data->runner, env})
                               : model;
  Learned learned = anew ? found_anew(float_model, recipe, *data, samples, env) : stored(recipe);
  Quantizer quantizer(float_model, std::move(learned.ranges), options);
  for (auto& [method, ranges] : learned.named) quantizer.add_ranges(method, std::move(ranges));
  Model result = quantizer.quantize(without_corrections(learned.plan));
  Corrections all = learned.own;
  for (const SchemeCorrections& found : learned.shared) {
    result = apply(found, std::move(result), recipe.plan);
    for (const auto& [scheme, corrections] : found) {
      all.rounding.insert(corrections.rounding.begin(), corrections.rounding.end());
      all.shifts.insert(corrections.shifts.begin(), corrections.shifts.end());
    }
  }
  result = apply(learned.own, std::move(result));
  Quantized made = finished(quantizer, std::move(result), std::move(float_model), std::move(all));
  made.found_anew = anew;
  return made;
}

}  // namespace seqto
