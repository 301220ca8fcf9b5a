// seqto quantize: one quantized model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "layer_table.h"
#include "print_json.h"
#include "quantize_recipe.h"
#include "seqto/error.h"
#include "seqto/plan.h"
#include "seqto/report.h"
#include "word_flags.h"

namespace seqto::cli {
namespace {

// Only static schemes need to know what values activations take.
bool needs_ranges(const std::optional<Plan>& plan) {
  if (!plan) return true;
  for (const auto& [layer, scheme] : plan->schemes)
    if (scheme == Scheme::kInt8 || scheme == Scheme::kInt8wInt16a) return true;
  return false;
}

// The methods that static layers of the plan name.
std::set<std::string> methods_of(const std::optional<Plan>& plan) {
  std::set<std::string> methods;
  if (plan)
    for (const auto& [layer, fields] : plan->options)
      if (fields.method) methods.insert(*fields.method);
  return methods;
}

std::string plan_with(ImproverKind kind) { return "a plan with " + field_names(kind); }

// The ranges under the plan; its layers then name no method any more.
Ranges resolved_ranges(const WordFlags& f, const Model& model, const Workbench& bench, std::optional<Plan>& plan,
                       const Context& context) {
  Ranges ranges = ranges_of(f, model, bench, context);
  std::map<std::string, Ranges> named;
  for (const std::string& method : methods_of(plan)) {
    bool known = f.ranges.empty() && method == f.quantize.calibrate.method;
    named[method] = known ? ranges
                          : calibrate(model, {*bench.data, bench.samples, *bench.runner, context.env},
                                      calibration_named(method, f.quantize.calibration()));
  }
  if (named.empty()) return ranges;
  ranges = ranges_under(*plan, model, ranges, named);
  for (auto& [layer, fields] : plan->options) fields.method.reset();
  return ranges;
}

Made make_by_flags(const WordFlags& f, const Context& context) {
  Model model = load_model_of(f, context);
  bool dynamic = f.mode == "dynamic";
  refuse_trees(model);
  if (dynamic || f.mode == "static") require_quantizable(model, dynamic ? Scheme::kInt8Dynamic : Scheme::kInt8);
  QuantizeOptions options = f.quantize.parsed();
  f.improve.add_options(options, f.quantize, true);
  options.exclude = expand_patterns(f.exclude, model);
  options.include = expand_patterns(options.include, model);
  options.format = parse_quant_format(f.format);
  if (dynamic) options.activation_type = DataType::kUint8;  // what the operators that quantize at run time give
  Scheme stored = f.weights.apply(options, f.quantize.weight_type, f.weight_type_given && f.mode == "weights");
  std::optional<Plan> plan;
  std::vector<std::string> notes;
  if (!f.plan.empty()) {
    ForeignPlan foreign = load_plan(f.plan, "", model, context);
    plan = std::move(foreign.plan);
    if (!plan->options.empty()) model = tunable_form(model, options, *plan).model;
    options.tensor_overrides.merge(foreign.encodings);  // the user's own word stands
  } else if (f.mode == "weights") {
    plan = uniform_plan(model, stored);
    notes = widen_tied_weights(*plan, model);
  } else if (dynamic) {
    plan = uniform_plan(model, Scheme::kInt8Dynamic);
  } else if (f.mode == "float16") {
    plan = uniform_plan(model, Scheme::kFloat16);
  }
  if (plan && f.mode == "weights" && plan->schemes.empty())
    throw Error(Code::kInvalidInput,
                "[quantize] nothing to quantize: no layer of the model reads a constant weight; choose a model with "
                "such layers");
  if (f.improve.given.smooth && !dynamic && f.mode != "static")
    throw Error(Code::kUsage, fmt::format("[quantize] --smooth-quant with --mode {} found, which quantizes no "
                                          "activations; use it with static or dynamic",
                                          f.mode));
  ImproveOptions improvers = f.improve.parsed(f.mode == "weights" ? stored : Scheme::kInt8, options);
  const bool fields_rewrite = plan && asks(*plan, ImproverKind::kModel),
             rewrites = improvers.rewrites() || fields_rewrite;
  const bool fields_improve = plan && asks(*plan, ImproverKind::kEncoding);
  if (rewrites && !f.ranges.empty())
    throw Error(Code::kUsage, fmt::format("[quantize] {} with --ranges found; it changes the ranges of activations; "
                                          "leave --ranges out",
                                          improvers.rewrites() ? f.improve.first() : plan_with(ImproverKind::kModel)));
  bool improving = improvers.rewrites() || improvers.corrects(), ranges = needs_ranges(plan);
  Workbench bench;
  if (improving) bench = open_workbench(f, model, f.improve.first(), false, context);
  else if (fields_rewrite) bench = open_workbench(f, model, plan_with(ImproverKind::kModel), false, context);
  else if (fields_improve) bench = open_workbench(f, model, plan_with(ImproverKind::kEncoding), false, context);
  else if (!methods_of(plan).empty()) bench = open_workbench(f, model, "a plan with methods", true, context);
  else if (ranges && f.ranges.empty())
    bench = open_workbench(f, model, "static quantization without --ranges", true, context);
  if (rewrites && !f.plan.empty())
    model = rewrite_for(model, improvers, options, *plan, {*bench.data, bench.samples, *bench.runner, context.env});
  else if (rewrites)
    model = rewrite_for(model, improvers, options, dynamic ? Scheme::kInt8Dynamic : Scheme::kInt8,
                        {*bench.data, bench.samples, *bench.runner, context.env});
  Improved found{ranges ? resolved_ranges(f, model, bench, plan, context) : Ranges{}, {}};
  if (improvers.corrects() || fields_improve)
    found = improve({model, found.ranges, options, plan ? *plan : uniform_plan(model, Scheme::kInt8)}, improvers,
                    {*bench.data, bench.samples, *bench.runner, context.env});
  const bool all_dynamic = f.plan.empty() && dynamic;
  Quantized made = quantize_model(std::move(model), std::move(found), options, all_dynamic ? std::nullopt : plan,
                                  all_dynamic ? Scheme::kInt8Dynamic : Scheme::kInt8);
  made.notes.insert(made.notes.begin(), notes.begin(), notes.end());
  Made result{std::move(made), {options, plan, {}}};
  result.asked.deviations = result.quantized.layer_deviations;
  return result;
}

void say_what_was_done(const Quantized& made, const Context& context) {
  for (const auto& id : made.deviations)
    context.env.log(LogLevel::kInfo,
                    fmt::format("deviates from onnxruntime's quantizer at {} (docs/reference/compatibility.md)", id));
  for (const auto& note : made.notes) context.env.log(LogLevel::kInfo, note);
}

void quantize_command(const WordFlags& f, Command word, const Context& context) {
  std::optional<Recipe> recipe;
  if (!f.plan.empty()) recipe = load_recipe(f.plan);
  const auto [made, asked] = recipe ? make_by_recipe(std::move(*recipe), f, word, context) : make_by_flags(f, context);
  check_model(made.model);
  save_model(made.model, f.output);
  const int64_t before = serialized_size(made.float_model), after = serialized_size(made.model);
  say_what_was_done(made, context);
  if (f.print_encoding) return fmt::print("{}\n", encoding_to_json(made));
  std::vector<LayerReport> layers;
  if (f.explain || after >= before) layers = explain(made.float_model, made.model, asked);
  const auto is_float = [](const LayerReport& l) { return l.scheme == "float32" || l.scheme == "float16"; };
  if (after >= before && f.mode != "float16" && std::ranges::all_of(layers, is_float))
    context.env.log(LogLevel::kWarning, "no layer was quantized; --explain says why for each");
  if (context.json) {
    nlohmann::ordered_json j{{"output", f.output},
                             {"size_bytes", after},
                             {"float_size_bytes", before},
                             {"deviations", made.deviations},
                             {"notes", made.notes}};
    if (f.explain) j["layers"] = layers_json(layers);
    print_json(j);
  } else {
    if (f.explain) print_layers(layers);
    fmt::print("wrote {}: {} instead of {}\n", f.output, format_bytes(after), format_bytes(before));
  }
}

// Without MODEL: the folder layout of a deployment, where an export leaves one file and its int8 form goes beside it.
void take_deployment_default(WordFlags& f, bool mode_given) {
  constexpr const char* kModel = "artifacts/model.onnx";
  if (!std::filesystem::exists(kModel)) {
    fmt::print(stderr, "Missing {}. Run export first.\n", kModel);
    end_parsing(static_cast<int>(Code::kInvalidInput));
  }
  f.model = kModel;
  if (f.output.empty()) f.output = "artifacts/model.int8.onnx";
  if (!mode_given && f.plan.empty()) f.mode = "dynamic";
}

}  // namespace

void add_quantize(Command app, Context& context) {
  auto f = std::make_shared<WordFlags>();
  const Command word = add_word(app, "quantize", "One quantized model", *f, false);
  add_quantizer(word, *f);
  add_improve_flags(word, f->improve);
  word.get_option("model").required(false).description(
      "ONNX file, or hub:NAME; without: artifacts/model.onnx to artifacts/model.int8.onnx, dynamic");
  word.add_option("-o,--output", f->output, "ONNX file to write");
  word.add_option(
      "--plan", f->plan,
      "Plan: which layer gets which scheme; ours or in another tool's dialect (docs/reference/dialects.md)");
  word.add_flag("--explain", f->explain, "Say for every layer what was done and why");
  word.add_flag(
      "--print-encoding", f->print_encoding,
      "Print everything that was decided as JSON: parameters of tensors, codes as hashes (docs/reference/formats.md)");
  add_weight_flags(word, f->weights);
  word.add_option("--mode", f->mode, "static, dynamic, weights, float16")
      .check_one_of({"static", "dynamic", "weights", "float16"})
      .capture_default_str();
  word.add_option("--format", f->format, "How static layers are written")
      .type_name("qdq|qoperator")
      .capture_default_str();
  add_print_config_flag(word);
  word.callback([=, &context] {
    f->weight_type_given = word.count("--weight-type") > 0;
    if (f->model.empty()) take_deployment_default(*f, word.count("--mode") > 0);
    else if (f->output.empty()) miss_option("--output");
    quantize_command(*f, word, context);
  });
}

}  // namespace seqto::cli
