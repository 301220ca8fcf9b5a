// seqto audit: what a quantized model gives on other processors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config_flags.h"
#include "seqto/error.h"
#include "seqto/explain.h"
#include "seqto/recipe.h"
#include "seqto/report.h"
#include "seqto/target.h"
#include "seqto/validate.h"
#include "terminal.h"
#include "word_flags.h"

namespace seqto::cli {
namespace {

struct Flags {
  std::string model, reference, plan, plan_out, target;
  double min_saturated = 0;
  bool float16 = false;
  DataFlags data;
  DeviceFlags device;
  HubOptions hub;
};

Outputs run_reference(const Flags& f, const Dataset& data, const Context& context) {
  if (f.reference.empty()) return {};
  const std::string file = model_file(f.reference, f.hub, context);
  const Model model = load_model(file);
  const std::vector<int64_t> samples = all_samples(data);
  const auto runner = safe_runner_for(model, f.data, "cpu", f.device.options, context);
  return reference_outputs(model, {data, samples, *runner, context.env}, file);
}

// Before the samples run. Other tools leave nodes without names.
void require_names(const Model& model) {
  for (const LayerReport& layer : explain(model))
    if (layer.name.empty() && layer.scheme != "float32")
      throw Error(Code::kInvalidInput,
                  fmt::format("[audit] --plan-out, and a {} without a name found; a plan names layers; give the float "
                              "model's nodes names with `seqto prepare FLOAT --skip-optimization -o NAMED`, and "
                              "quantize that one",
                              layer.op_type));
}

// The rest of the plan's recipe stays.
void write_proposed(const Audit& found, const Flags& f) {
  std::optional<Recipe> recipe;
  if (!f.plan.empty()) recipe = load_recipe(f.plan);
  if (!recipe) return write_proposal(found, f.plan_out);
  recipe->plan = found.proposal;
  save_recipe(*recipe, f.plan_out);
}

void audit_in_float16(const Flags& f, const Model& model, const SampleRun& on, const Context& context) {
  if (!f.reference.empty() || !f.plan.empty() || f.min_saturated > 0 || !f.target.empty())
    throw Error(
        Code::kUsage,
        "[audit] --reference, --plan, --min-saturated or --target with --float16 found, where they do nothing; leave "
        "them out: losses are against the model itself, in float32");
  Float16Audit found = audit_float16(model, on);
  found.model = f.model;
  if (!f.plan_out.empty()) write_text(f.plan_out, plan_to_json(found.proposal));
  fmt::print("{}", context.json ? float16_audit_to_json(found) : float16_audit_text(found, stdout_style()));
  if (!context.json && !f.plan_out.empty())
    fmt::print("wrote {}: {} layers in float32\n", f.plan_out, found.in_float32.size());
}

Arithmetic arithmetic_of(const Target& target, const std::string& asked) {
  if (target.arithmetic) return *target.arithmetic;
  std::vector<std::string> others;
  for (std::string& name : target_names())
    if (load_target(name).arithmetic) others.push_back(std::move(name));
  const std::string run =
      target.device.empty()
          ? ""
          : fmt::format(", and `seqto validate FLOAT MODEL --device {}` compares what it gives there", target.device);
  throw Error(Code::kUsage,
              fmt::format("[audit] --target {0} found, whose table has no [arithmetic]: how it adds and rounds is not "
                          "known; {1}, or a TOML file with one expected; `seqto lint MODEL --target {0}` says what {0} "
                          "computes on codes{2}",
                          asked, fmt::join(others, ", "), run));
}

// Losses of a file that the target does not take are of another one.
void warn_of_refused(Model model, const Target& target, const Flags& f, const Context& context) {
  name_nodes(model);
  const Lint found = lint(infer_shapes(model), target);
  const auto first = std::ranges::find(found.nodes, Verdict::kRefused, &LintedNode::verdict);
  if (first == found.nodes.end()) return;
  context.env.log(LogLevel::kWarning,
                  fmt::format("[audit] {0} refuses {1} of {2} nodes (the first, {3} '{4}': {5}), so that the figures "
                              "are of a file that it does not run; `seqto lint {6} --target {0}` tells all; `seqto "
                              "quantize FLOAT --target {0} -o OUT` makes a file for it",
                              f.target, found.count(Verdict::kRefused), found.nodes.size(), first->op_type, first->node,
                              first->reason, f.model));
}

void require_emulated(const Audit& found, const Flags& f) {
  if (std::ranges::any_of(found.layers, &AuditedLayer::is_emulated)) return;
  const char* in = f.target.empty() ? "int8" : "integers";
  std::string layers = fmt::format("no Conv, Gemm or MatMul in {}", in);
  if (!found.layers.empty())
    layers = fmt::format("{} layers in {}, none of which is emulated (the first, {}: {}),", found.layers.size(), in,
                         found.layers[0].op_type, found.layers[0].not_emulated_because);
  throw Error(Code::kInvalidInput,
              fmt::format("[audit] {}: {} found; a model in QDQ form expected, as `seqto quantize` writes it", f.model,
                          layers));
}

void audit_command(const Flags& f, const Context& context) {
  const std::string file = model_file(f.model, f.hub, context);
  const Model model = load_model(file);
  DataFlags asked = f.data;
  DatasetOptions& options = asked.options;
  constexpr int64_t kSamples = 32;
  if (options.samples == 0 && options.random_samples == 0) options.samples = kSamples;
  auto data = open_data(file, model, asked, context);
  if (!options.states.empty())
    throw Error(Code::kUsage, "[audit] --state found; models without recurrent states expected");
  if (f.device.device != "cpu")
    throw Error(Code::kUsage, fmt::format("[audit] --device {} found; cpu expected: other processors are emulated here",
                                          f.device.device));
  const auto runner = safe_runner_for(model, f.data, "cpu", f.device.options, context);
  if (f.float16) return audit_in_float16(f, model, {*data, all_samples(*data), *runner, context.env}, context);
  AuditOptions audited{.file = f.reference.empty() ? file : model_file(f.reference, f.hub, context),
                       .min_saturated = f.min_saturated};
  const std::optional<Target> target = f.target.empty() ? std::nullopt : std::optional(load_target(f.target));
  if (target) {
    audited.arithmetic = arithmetic_of(*target, f.target);
    warn_of_refused(model, *target, f, context);
  }
  if (!f.plan_out.empty()) require_names(model);
  if (!f.plan.empty()) audited.plan = plan_from_json(read_text(f.plan));
  const std::vector<int64_t> samples = all_samples(*data);
  const Outputs reference = run_reference(f, *data, context);
  Audit found = audit(model, {*data, samples, *runner, context.env}, reference, audited);
  require_emulated(found, f);
  found.model = f.model;
  found.reference = f.reference;
  if (target) found.target = target->name;
  if (!f.plan_out.empty()) write_proposed(found, f);
  fmt::print("{}", context.json ? audit_to_json(found) : audit_text(found, stdout_style()));
  if (!context.json && !f.plan_out.empty())
    fmt::print("wrote {}: reduce_range for {} layers\n", f.plan_out, found.proposed.size());
}

}  // namespace

void add_audit(Command app, Context& context) {
  auto f = std::make_shared<Flags>();
  const Command word = app.add_subcommand(
      "audit", "Would a model give the same on processors without VNNI, on a target, or in float16?");
  add_config_flag(word);
  word.add_option("model", f->model,
                  "ONNX file in QDQ form, as `seqto quantize` writes it; with --float16 in float32; or hub:NAME")
      .required();
  word.add_flag("--float16", f->float16,
                "Of a float32 model: what float16 cannot hold on the data, and a plan without that");
  word.add_option("--target", f->target, "Emulate the arithmetic of this target: a name, or a TOML file");
  add_data_flags(word, f->data, true);
  add_device_flags(word, f->device);
  add_hub_flags(word, f->hub);
  word.under("Input").add_option("--reference", f->reference,
                                 "The float model to take losses against; without: this model as it runs here");
  word.under("Input").add_option("--plan", f->plan, "The plan that the model was made by, also as DIR:3 of a study");
  word.under("Output").add_option("--plan-out", f->plan_out,
                                  "Write the plan with reduce_range for the layers that saturated, or with --float16 "
                                  "float32 for those that it cannot hold");
  word.under("Output")
      .add_option("--min-saturated", f->min_saturated,
                  "Share of a layer's outputs from which the plan reduces its range (0: any)")
      .check_range(0.0, 1.0);
  add_print_config_flag(word);
  word.callback([=, &context] {
    f->plan = plan_file(f->plan);
    audit_command(*f, context);
  });
}

}  // namespace seqto::cli
