#include "quantize_recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "idle_flags.h"
#include "seqto/error.h"
#include "seqto/plan.h"

namespace seqto::cli {
namespace {

using nlohmann::json;

// Without what the device asks for: the recipe has that of the device it was made for.
WordFlags for_any_device(WordFlags f) {
  f.quantize.target.clear();
  f.quantize.fast_on.clear();
  f.quantize.options.sums_for_adds = QuantizeOptions().sums_for_adds;
  f.quantize.options.widen_float16 = QuantizeOptions().widen_float16;
  return f;
}

// The options as flags say them; those of a word without flags are the ones that nobody asked for.
json options_of(const WordFlags& f) {
  QuantizeOptions options = f.quantize.parsed();
  options.format = parse_quant_format(f.format);
  f.weights.apply(options, f.quantize.weight_type, false);
  return json::parse(quantize_options_to_json(options));
}

bool is_given(Command word, std::string field) {
  std::ranges::replace(field, '_', '-');
  return word.count("--" + field) > 0;
}

// What flags ask for counts; a field that a flag sets to its default is known by the flag's name.
void take_flags(QuantizeOptions& options, const WordFlags& f, Command word, const Context& context) {
  json own = json::parse(quantize_options_to_json(options));
  const json asked = options_of(f), defaults = options_of({});
  std::vector<std::string> changed;
  for (const auto& [field, value] : asked.items()) {
    if (field == "exclude" || own[field] == value || (value == defaults.at(field) && !is_given(word, field))) continue;
    changed.push_back(fmt::format("{} {} instead of {}", field, value.dump(), own[field].dump()));
    own[field] = value;
  }
  if (changed.empty()) return;
  options = quantize_options_from_json(own.dump());
  context.env.log(LogLevel::kWarning,
                  fmt::format("flags go before the plan's own options: {}; the file is another than the plan's",
                              fmt::join(changed, ", ")));
}

// What a recipe settles: a flag beside it would have no effect.
void refuse_settled(const WordFlags& f, Command word) {
  std::string flag;
  if (word.count("--mode") > 0) flag = "--mode";
  if (f.improve.any()) flag = f.improve.first();
  if (word.typed("--smooth-alpha")) flag = "--smooth-alpha";
  if (calibrate_options_to_json(f.quantize.calibration()) != calibrate_options_to_json(CalibrateFlags{}.parsed({})))
    flag = "a flag of calibration";
  if (flag.empty()) return;
  throw Error(Code::kUsage,
              fmt::format("[quantize] {} with {} found, which carries its own recipe; leave the flag out, "
                          "or the entry \"recipe\" of the plan",
                          flag, f.plan));
}

const char* what_is_new(const Recipe& recipe, const std::string& sha256) {
  return recipe.model_sha256 == sha256
             ? "the data are not the samples that the plan was made on (--labels decides their order, "
               "--preprocess their values)"
             : "the model is not the one that the plan was made for";
}

}  // namespace

Made make_by_recipe(Recipe recipe, const WordFlags& given, Command word, const Refusal& refusal,
                    const Context& context) {
  const WordFlags f = for_any_device(given);
  refuse_settled(f, word);
  refuse_idle(recipe, f, word);
  take_flags(recipe.quantize, f, word, context);
  const std::string file = model_file(f.model, f.hub, context);
  const Model loaded = load_model(file);
  const std::string sha256 = model_sha256(file, loaded);
  Model model = recipe_form(loaded, recipe);
  if (f.prepare) {
    model = prepare(model).model;
    recipe.rewritten.reset();  // it is of the model before
  }
  for (LayerId& layer : expand_patterns(f.exclude, model)) recipe.quantize.exclude.push_back(std::move(layer));
  if (!f.ranges.empty()) recipe.ranges[""] = {f.ranges, ""};
  Workbench bench;
  if (!f.data.path.empty()) {
    WordFlags own = f;
    own.data.options.order = recipe.sample_order;
    bench = open_workbench(own, model, "a plan", false, context);
  }
  std::optional<RecipeData> data;
  if (bench.data) data.emplace(*bench.data, *bench.runner);
  if (data && !f.ranges.empty()) data->ranges = load_ranges(f.ranges);
  Judged judged;
  if (bench.data && can_teach(f.data) && !f.improve.quick) {
    std::vector<int64_t> fresh = bench.samples;
    std::erase_if(fresh, [&](int64_t i) {
      return std::ranges::find(recipe.calibration_samples, i) != recipe.calibration_samples.end();
    });
    judged = some_of(fresh.empty() ? bench.samples : fresh);
    judged.held_back = !fresh.empty();
  }
  Made made{quantize_model(model, sha256, recipe, data, context.env, refusal),
            {recipe.quantize, recipe.plan, {}},
            std::move(bench),
            std::move(judged)};
  made.asked.deviations = made.quantized.layer_deviations;
  if (made.quantized.found_anew)
    context.env.log(LogLevel::kWarning,
                    fmt::format("{}: ranges and corrections are found anew", what_is_new(recipe, sha256)));
  return made;
}

}  // namespace seqto::cli
