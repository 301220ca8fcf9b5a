// A recipe carried out: rewrite, ranges, quantize, corrections.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/unneeded.h"
#include "quantization/encode/encoding.h"
#include "quantization/encode/forms.h"
#include "quantization/plan/refused_layers.h"
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

// Of the layers: those of a recipe without a plan are all that the scheme can hold.
Plan plan_of(const Model& model, const Recipe& recipe) {
  return recipe.everywhere ? uniform_plan(model, *recipe.everywhere) : recipe.plan;
}

Learned stored(const Model& model, const Recipe& recipe) {
  Learned learned{.plan = plan_of(model, recipe)};
  for (const auto& [method, file] : recipe.ranges)
    (method.empty() ? learned.ranges : learned.named[method]) = load_ranges(file.path);
  for (const StoredFile& file : recipe.corrections) learned.shared.push_back(load_corrections(file.path));
  return learned;
}

// The ranges of the plan's static layers; its layers then name no method any more.
Ranges calibrated(const Model& model, const Recipe& recipe, const RecipeData& data, const SampleRun& on, Plan& plan) {
  if (std::ranges::none_of(plan.schemes, [](const auto& layer) { return is_static(layer.second); })) return {};
  Ranges ranges = data.ranges ? *data.ranges : calibrate(model, on, recipe.calibrate);
  std::map<std::string, Ranges> named;
  for (auto& [layer, fields] : plan.options) {
    if (!fields.method || named.contains(*fields.method)) continue;
    const CalibrateOptions own = calibration_named(*fields.method, recipe.calibrate);
    const bool same = !data.ranges && calibrate_options_to_json(own) == calibrate_options_to_json(recipe.calibrate);
    named[*fields.method] = same ? ranges : calibrate(model, on, own);
  }
  ranges = ranges_under(plan, model, ranges, named);
  for (auto& [layer, fields] : plan.options) fields.method.reset();
  return ranges;
}

Learned found_anew(const Model& model, const Recipe& recipe, const RecipeData& data, const SampleRun& on) {
  Learned learned{.plan = plan_of(model, recipe)};
  learned.ranges = calibrated(model, recipe, data, on, learned.plan);
  Improved improved = improve({model, learned.ranges, recipe.quantize, learned.plan}, recipe.improvers, on);
  learned.ranges = std::move(improved.ranges);
  learned.own = std::move(improved.corrections);
  return learned;
}

[[noreturn]] void ask_for_data(const char* reason) {
  throw Error(Code::kUsage, fmt::format("[quantize] a plan {} without --data found; give the data, with the flags that "
                                        "`tune` read them with",
                                        reason));
}

// As it is quantized; what is rewritten may get layers that `options` leave out. `stored`: it was written before.
Model float_model(const Model& model, const Recipe& recipe, QuantizeOptions& options,
                  const std::optional<StoredFile>& stored, const std::optional<SampleRun>& on) {
  if (!rewrites(recipe)) return model;
  if (stored) {
    Model rewritten = load_model(stored->path);
    rewritten.external_files = model.external_files;  // whose size it is compared with
    return rewritten;
  }
  if (recipe.rewritten_for) return rewrite_for(model, recipe.improvers, options, *recipe.rewritten_for, *on);
  return rewrite_for(model, recipe.improvers, options, recipe.plan, *on);
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

std::string encoding_to_json(const Quantized& made) { return internal::to_json(*made.encoding).dump(1); }

Model recipe_form(const Model& model, const Recipe& recipe) {
  Model result = model;
  for (int64_t opset : recipe.opsets)
    result = internal::form_of_opset(result, recipe.quantize, opset, recipe.fold_batch_norms).model;
  return result;
}

bool rewrites(const Recipe& recipe) {
  return recipe.improvers.rewrites() || (!recipe.rewritten_for && asks(recipe.plan, ImproverKind::kModel));
}

Quantized quantize_model(const Model& model, const std::string& sha256, const Recipe& recipe,
                         const std::optional<RecipeData>& data, const Env& env, const Refusal& refusal) {
  const bool own_model = sha256 == recipe.model_sha256;
  if (!data && !own_model && samples_for(recipe) != SamplesFor::kNothing)
    ask_for_data("that was made for another model (model_sha256)");
  if (!data && rewrites(recipe) && !recipe.rewritten) ask_for_data("that rewrites the model before calibration");
  std::vector<int64_t> samples;
  if (data) samples = calibration_samples(recipe, data->data);
  const bool anew = data && (!own_model || recipe.samples_sha256.empty() ||
                             samples_sha256(data->data, samples) != recipe.samples_sha256);
  std::optional<SampleRun> on;
  if (data) on.emplace(SampleRun{data->data, samples, data->runner, env});
  Quantized made{.given = model, .options = recipe.quantize, .found_anew = anew};
  made.float_model = float_model(model, recipe, made.options, anew ? std::nullopt : recipe.rewritten, on);
  Recipe rewritten = recipe;
  rewritten.quantize = made.options;
  Learned learned = anew ? found_anew(made.float_model, rewritten, *data, *on) : stored(made.float_model, rewritten);
  Quantizer quantizer(made.float_model, std::move(learned.ranges), made.options);
  for (auto& [method, ranges] : learned.named) quantizer.add_ranges(method, std::move(ranges));
  std::vector<Corrections> corrections;
  for (const SchemeCorrections& found : learned.shared) corrections.push_back(wanted(found, recipe.plan));
  corrections.push_back(std::move(learned.own));
  const auto without = [&](const std::vector<LayerId>& floats) {
    if (recipe.everywhere) return quantizer.quantize_excluding(floats, *recipe.everywhere, corrections);
    Plan plan = without_corrections(learned.plan);
    for (const LayerId& layer : floats) plan.schemes.erase(layer);
    return quantizer.quantize(plan, corrections);
  };
  internal::RefusedLayers refused;
  if (refusal) refused = internal::find_refused(made.float_model, without, refusal, made.options.exclude);
  made.options.exclude.insert(made.options.exclude.end(), refused.layers.begin(), refused.layers.end());
  made.model = refusal ? std::move(refused.model) : without({});
  if (!made.options.compat_onnxruntime) made.export_note_bytes = internal::export_note_bytes(model);
  made.deviations = quantizer.deviations();
  made.notes = quantizer.notes();
  if (!refused.said.empty()) made.notes.push_back(refused.said);
  made.refused = !refused.taken;
  made.layer_deviations = quantizer.layer_deviations();
  made.encoding = quantizer.encoding();
  return made;
}

}  // namespace seqto
