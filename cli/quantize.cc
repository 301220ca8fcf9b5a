// seqto quantize: one quantized model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "idle_flags.h"
#include "layer_table.h"
#include "print_json.h"
#include "quantize_recipe.h"
#include "seqto/bench.h"
#include "seqto/error.h"
#include "seqto/plan.h"
#include "seqto/report.h"
#include "seqto/runner.h"
#include "seqto/target.h"
#include "seqto/verify.h"
#include "word_flags.h"

namespace seqto::cli {
namespace {

std::string plan_with(ImproverKind kind) { return "a plan with " + field_names(kind); }

// Which layers, from --mode or --plan; the user's own overrides stay before those of the plan's file.
std::vector<std::string> choose_layers(Recipe& recipe, Model& model, const WordFlags& f, Scheme stored,
                                       const Context& context) {
  if (f.plan.empty()) return take_mode(recipe, model, f.mode, stored, f.best);
  ForeignPlan foreign = load_plan(f.plan, "", model, context);
  std::vector<std::string> notes = take_plan(recipe, std::move(foreign.plan), model);
  if (foreign.encodings.empty()) return notes;
  recipe.quantize.tensor_overrides.merge(foreign.encodings);
  model = quantizable_form(model, recipe.quantize).model;  // channels and 16 bits need newer opsets
  return notes;
}

void refuse_contradictions(const Recipe& recipe, const WordFlags& f) {
  if (rewrites(recipe) && !f.ranges.empty())
    throw Error(Code::kUsage,
                fmt::format("[quantize] {} with --ranges found; it changes the ranges of activations; "
                            "leave --ranges out",
                            recipe.improvers.rewrites() ? f.improve.first() : plan_with(ImproverKind::kModel)));
}

// What of it takes data, in the words of the error that asks for them; nothing where none are needed.
struct NeedsData {
  std::string asked_by;
  bool once = false;  // the samples are read only once
};
std::optional<NeedsData> needs_data(const Recipe& recipe, const WordFlags& f) {
  switch (samples_for(recipe)) {
    case SamplesFor::kImprovers:
      return NeedsData{f.improve.first()};
    case SamplesFor::kPlannedRewriting:
      return NeedsData{plan_with(ImproverKind::kModel)};
    case SamplesFor::kPlannedCorrections:
      return NeedsData{plan_with(ImproverKind::kEncoding)};
    case SamplesFor::kPlannedMethods:
      return NeedsData{"a plan with methods", true};
    case SamplesFor::kRanges:
      if (!f.ranges.empty()) break;
      if (f.data.path.empty())
        throw Error(Code::kUsage,
                    "[quantize] static quantization without --data found, and without --ranges; samples to find ranges "
                    "on expected; give --data, or --mode weights, which needs none");
      return NeedsData{"static quantization without --ranges", true};
    case SamplesFor::kNothing:
      break;
  }
  if (f.verify) return NeedsData{"--verify"};
  if (!f.data.path.empty() && can_teach(f.data) && !f.improve.quick) return NeedsData{"--data"};  // to check on
  return {};
}

Made make_by_flags(const WordFlags& f, const Command& word, const Refusal& refusal, const Context& context) {
  Model model = load_model_of(f, context);
  refuse_trees(model);
  Recipe recipe{.quantize = f.quantize.parsed(), .calibrate = f.quantize.calibration()};
  QuantizeOptions& options = recipe.quantize;
  f.improve.add_options(options, f.quantize, true);
  options.exclude = expand_patterns(f.exclude, model);
  options.include = expand_patterns(options.include, model);
  options.format = parse_quant_format(f.format);
  const Scheme stored = f.weights.apply(options, f.quantize.weight_type, f.weight_type_given && f.mode == "weights");
  std::vector<std::string> notes = choose_layers(recipe, model, f, stored, context);
  if (!f.quantize.target.empty())
    if (std::string left = take_target_layers(options, load_target(f.quantize.target), model); !left.empty())
      notes.push_back(std::move(left));
  recipe.improvers = f.improve.parsed(f.mode == "weights" ? stored : Scheme::kInt8, options);
  refuse_idle(recipe, f, word);
  refuse_contradictions(recipe, f);
  Workbench bench;
  Judged judged;
  std::optional<RecipeData> data;
  if (const auto needs = needs_data(recipe, f)) {
    bench = open_workbench(f, model, needs->asked_by, needs->once, context);
    if (f.improve.unasked && !f.improve.quick) judged = hold_back(bench, f.data.options.seed);
    else if (can_teach(f.data) && !f.improve.quick) judged = some_of(bench.samples);
    recipe.calibration_samples = bench.samples;
    data.emplace(*bench.data, *bench.runner);
    if (!f.ranges.empty()) data->ranges = load_ranges(f.ranges);
  } else if (!f.ranges.empty()) {
    recipe.ranges[""] = {f.ranges, ""};
  }
  Made made{
      quantize_model(model, recipe.model_sha256, recipe, data, context.env, refusal), {}, std::move(bench), judged};
  made.quantized.notes.insert(made.quantized.notes.begin(), notes.begin(), notes.end());
  made.asked.quantize = made.quantized.options;
  if (recipe.everywhere == Scheme::kInt8Dynamic)
    made.asked.plan = uniform_plan(made.quantized.float_model, *recipe.everywhere);
  else if (!recipe.everywhere) made.asked.plan = recipe.plan;
  made.asked.deviations = made.quantized.layer_deviations;
  return made;
}

void say_what_was_done(const Quantized& made, const Context& context) {
  for (const auto& id : made.deviations)
    context.env.log(LogLevel::kInfo,
                    fmt::format("deviates from onnxruntime's quantizer at {} (docs/reference/compatibility.md)", id));
  for (const auto& note : made.notes) context.env.log(LogLevel::kInfo, note);
}

void tell(const SelfCheck& check, const WordFlags& f, const QuantizeOptions& made_with, const Context& context) {
  if (check.ruined) context.env.log(LogLevel::kWarning, fmt::format("{}; try {}", check.text, advice(f, made_with)));
  else context.env.log(check.figure.empty() ? LogLevel::kWarning : LogLevel::kInfo, check.text);
}

// Whether the runtime computes what the file says.
struct Verified {
  size_t samples = 0;
  std::optional<OptimizationFault> fault;
};

std::optional<Verified> verified(const Model& model, const Workbench& bench, const Judged& judged, const WordFlags& f,
                                 const Context& context) {
  if (!f.verify) return {};
  const Judged on = judged.samples.empty() ? some_of(bench.samples) : judged;
  return Verified{on.samples.size(),
                  find_optimization_fault(model, {*bench.data, on.samples, *bench.runner, context.env})};
}

nlohmann::ordered_json to_json(const Verified& verified) {
  nlohmann::ordered_json j{{"samples", verified.samples}, {"fault", nullptr}};
  if (const auto& fault = verified.fault)
    j["fault"] = {{"node", fault->node},
                  {"op_type", fault->op_type},
                  {"tensor", fault->tensor},
                  {"sample", fault->sample},
                  {"error", fault->error}};
  return j;
}

nlohmann::ordered_json to_json(const SelfCheck& check, const WordFlags& f, const QuantizeOptions& made_with) {
  nlohmann::ordered_json j{{"figure", check.figure},
                           {"value", check.value},
                           {"samples", check.on.samples.size()},
                           {"held_back", check.on.held_back},
                           {"ruined", check.ruined}};
  if (check.ruined) j["try"] = advice(f, made_with);
  return j;
}

// The float weights are in no other file.
void keep_original(const WordFlags& f) {
  std::error_code none;
  if (std::filesystem::equivalent(f.model, f.output, none))
    throw Error(Code::kUsage, fmt::format("[quantize] -o {} found, which is the float model itself; another file "
                                          "expected: its weights would be lost",
                                          f.output));
}

void quantize_command(const WordFlags& f, Command word, const Context& context) {
  keep_original(f);
  require_device(f.device.device);
  if (f.verify && f.data.path.empty())
    throw Error(Code::kUsage, "[quantize] --verify without --data found; samples to run the model on expected");
  std::optional<Recipe> recipe;
  if (!f.plan.empty()) recipe = load_recipe(f.plan);
  const std::optional<Target> target = f.target.empty() ? std::nullopt : std::optional(load_target(f.target));
  const Refusal refusal = target ? refusal_by(target->device, {}, context.env) : Refusal();
  auto [made, asked, bench, judged] =
      recipe ? make_by_recipe(std::move(*recipe), f, word, refusal, context) : make_by_flags(f, word, refusal, context);
  check_model(made.model);
  if (target) require_taken(made.model, *target);
  if (made.refused) context.env.log(LogLevel::kWarning, fmt::format("{} does not take the file", target->device));
  const std::filesystem::path file = model_file(f.model, f.hub, context);
  const int64_t before = model_file_bytes(file, made.float_model);
  save_model(made.model, f.output);
  const int64_t after = serialized_size(made.model);
  say_what_was_done(made, context);
  if (f.print_encoding) return fmt::print("{}\n", encoding_to_json(made));
  std::vector<LayerReport> layers;
  if (f.explain) layers = explain(made.float_model, made.model, asked);
  if (f.mode != "float16" && quantized_form(made.model).form == "float")
    context.env.log(LogLevel::kWarning, "no layer was quantized; --explain says why for each");
  else
    for (const std::string& said : surprises(made, file, before, after)) context.env.log(LogLevel::kWarning, said);
  if (bench.runner)  // it now runs what was made, and with the runtime's optimizations
    for (const Model* model : {&made.given, &made.float_model, &made.model})
      if (may_end_process(*model, f.device.device))
        bench.runner = safe_runner_for(*model, f.data, f.device.device, f.device.options, context);
  const auto check = self_check(made, file, bench, judged, context.env);
  if (check) tell(*check, f, made.options, context);
  const auto ran_as_written = verified(made.model, bench, judged, f, context);
  if (context.json) {
    nlohmann::ordered_json j{{"output", f.output},
                             {"size_bytes", after},
                             {"float_size_bytes", before},
                             {"deviations", made.deviations},
                             {"notes", made.notes}};
    if (check) j["check"] = to_json(*check, f, made.options);
    if (ran_as_written) j["verified"] = to_json(*ran_as_written);
    if (f.explain) j["layers"] = layers_json(layers);
    print_json(j);
  } else {
    if (f.explain) print_layers(layers);
    fmt::print("wrote {}: {} instead of {}{}\n", f.output, format_bytes(after), format_bytes(before),
               made.export_note_bytes > 0
                   ? fmt::format(", of which {} were notes of its exporter", format_bytes(made.export_note_bytes))
                   : "");
    if (ran_as_written && !ran_as_written->fault)
      fmt::print("verified on {} samples: the runtime's optimizations leave what it computes\n",
                 ran_as_written->samples);
  }
  if (ran_as_written && ran_as_written->fault)
    throw Error(Code::kGateNotMet, fmt::format("[quantize] {}", to_text(*ran_as_written->fault)));
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

// Whether the target takes what all layers get; a plan's are checked when they are written.
void take_target(WordFlags& f) {
  if (f.target.empty()) return;
  if (f.plan.empty()) {
    QuantizeOptions options;
    const bool type_given = f.weight_type_given && f.mode == "weights";
    DetailedScheme asked(scheme_of(f.mode, f.weights.apply(options, f.quantize.weight_type, type_given)));
    if (asked.scheme == Scheme::kInt4Weights) asked.fields.bits = options.weight_only.bits;
    require_scheme(load_target(f.target), asked, "--mode " + f.mode);
  }
  if (f.mode == "static") f.quantize.target = f.target;
}

void take_fast_forms(WordFlags& f) {
  if (f.target.empty()) seqto::take_fast_forms(f.quantize.options, f.device.device);
  else take_target_forms(f.quantize.options, load_target(f.target));
}

// kTypeFields says whose model is improved and in fast types.
void take_best_defaults(WordFlags& f, Command word, const Context& context) {
  const auto is_named = [&](const char* field) { return word.count(flag_of(field)) > 0; };
  f.quantize.keeps_float16 = !f.ranges.empty();  // they name the tensors of the model as it came
  std::ranges::copy_if(kTypeFields, std::back_inserter(f.quantize.named_types), is_named);
  f.best = !names_types(f.mode, is_named) && !is_named("compat");
  f.improve.unasked = improves_on_data(f.mode, !f.best) && !is_named("plan") && !is_named("compat") &&
                      f.ranges.empty() && !f.data.path.empty() && can_teach(f.data) && !f.improve.names();
  if ((f.mode != "static" || is_named("plan")) && !is_named("compat")) take_fast_forms(f);
  if (f.mode != "static" || !f.best || is_named("plan")) return;
  f.quantize.fast_on = f.device.device;  // where no target is given
  if (f.quantize.parsed().reduce_range)
    context.env.log(LogLevel::kInfo, fmt::format("weights in 7 bits: {} has no VNNI, where 8 bits could overflow",
                                                 f.target.empty() ? "this processor" : f.target));
}

}  // namespace

void add_quantize(Command app, Context& context) {
  auto f = std::make_shared<WordFlags>();
  const Command word = add_word(app, "quantize", "One quantized model", *f, false);
  const Command output = word.under("Output"), scheme = word.under("Scheme");
  scheme.add_option("--mode", f->mode, "What all layers get")
      .check_one_of({"static", "dynamic", "weights", "float16"})
      .capture_default_str();
  output.add_option("-o,--output", f->output, "ONNX file to write");
  scheme.add_option("--target", f->target, "Types and layers for another device (docs/reference/targets.md)")
      .type_name("NAME|FILE.toml");
  scheme.add_option("--plan", f->plan, "Schemes of the layers: a file, also of other tools, or DIR:3 of a study");
  output.add_flag("--explain", f->explain, "Say for every layer what was done and why");
  output
      .add_flag("--verify", f->verify,
                "Run it with the runtime's optimizations and without; exit code 5 where they differ")
      .in_detail();
  output
      .add_flag("--print-encoding", f->print_encoding,
                "Print everything that was decided as JSON: parameters of tensors, codes as hashes "
                "(docs/reference/formats.md)")
      .in_detail();
  add_quantizer(word, *f);
  add_improve_flags(word, f->improve);
  word.under("Improvers").add_flag("--quick", f->improve.quick, "Neither improve the model nor check it on samples");
  word.get_option("model").required(false).description("ONNX file or hub:NAME; without: artifacts/model.onnx, dynamic");
  add_weight_flags(word, f->weights);
  scheme.add_option("--format,--quant-format", f->format, "How static layers are written")
      .type_name("qdq|qoperator")
      .capture_default_str();
  add_print_config_flag(word);
  word.callback([=, &context] {
    f->plan = plan_file(f->plan);
    f->weight_type_given = word.count("--weight-type") > 0;
    f->given_for_tune = given_for(word, "tune");
    if (f->model.empty()) take_deployment_default(*f, word.count("--mode") > 0);
    else if (f->output.empty()) miss_option("--output");
    take_target(*f);
    take_best_defaults(*f, word, context);
    quantize_command(*f, word, context);
  });
}

}  // namespace seqto::cli
