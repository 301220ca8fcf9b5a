// seqto plan convert: plans between the dialects of several tools.
#include <fmt/format.h>

#include <fstream>

#include "seqto/error.h"
#include "seqto/explain.h"
#include "seqto/recipe.h"
#include "word_flags.h"

namespace seqto::cli {
namespace {

struct Flags {
  std::string input, model, quantized, from, to, output;
  HubOptions hub;
};

void say(const std::vector<std::string>& notes, const Context& context) {
  for (const auto& note : notes) context.env.log(LogLevel::kWarning, "[plan] " + note);
}

// The layers of a quantized model as a plan.
Plan plan_of(const Model& model, const Model& quantized) {
  Plan plan;
  for (const LayerReport& layer : explain(model, quantized))
    if (const Scheme scheme = parse_scheme(layer.scheme); scheme != Scheme::kFloat32) plan.schemes[layer.name] = scheme;
  return plan;
}

void convert_command(const Flags& f, const Context& context) {
  if (f.input.empty() && f.quantized.empty())
    throw Error(Code::kUsage, "[plan] neither a file nor --quantized found; one of them was expected");
  const Dialect to = parse_dialect(f.to);
  const Model model = load_for_quantizing(model_file(f.model, f.hub, context), {}, context.env);
  ForeignPlan plan;
  const std::string input = plan_file(f.input);
  if (!f.input.empty()) plan = load_plan(input, f.from, model, context);
  if (!f.quantized.empty()) {
    const Model quantized = infer_shapes(load_model(model_file(f.quantized, f.hub, context)));
    if (f.input.empty()) plan.plan = plan_of(model, quantized);
    plan.encodings = encodings_of(model, quantized);
  }
  PlanText text = write_plan(plan, to, model);
  if (!f.input.empty() && has_recipe(input))
    text.notes.emplace_back("the plan's recipe (options, ranges, corrections) is not part of what is written");
  say(text.notes, context);
  write_text(f.output, text.text);
}

}  // namespace

ForeignPlan load_plan(const std::string& path, const std::string& dialect, const Model& model, const Context& context) {
  const std::string text = read_text(path);
  ForeignPlan plan = read_plan(text, dialect.empty() ? detect_dialect(text) : parse_dialect(dialect), model);
  say(plan.notes, context);
  return plan;
}

std::vector<LayerId> float_layers(const std::string& path, const Model& model, const Context& context) {
  const Plan plan = load_plan(path, "", model, context).plan;
  std::vector<LayerId> layers;
  for (const auto& [layer, scheme] : uniform_plan(model, Scheme::kInt8).schemes) {
    const auto it = plan.schemes.find(layer);
    if (it == plan.schemes.end() || it->second == Scheme::kFloat32 || it->second == Scheme::kFloat16)
      layers.push_back(layer);
  }
  return layers;
}

void add_plan(Command app, Context& context) {
  const Command word = app.add_subcommand("plan", "Plans of this and of other tools");
  word.require_subcommand();
  auto f = std::make_shared<Flags>();
  const Command convert =
      word.add_subcommand("convert", "A plan from one dialect to another (docs/reference/dialects.md)");
  const char* kDialects = "seqto|onnxruntime|nncf|tensorrt|aimet|quark";
  convert.add_option("input", f->input,
                     "File to read, or DIR:3 of a study; without: the plan that --quantized was made by");
  convert.add_option("--model", f->model, "The float model that the plan is for: ONNX file, or hub:NAME").required();
  convert.add_option("--from", f->from, "Dialect of the file; default: seen in it").type_name(kDialects);
  convert.add_option("--to", f->to, "Dialect to write").type_name(kDialects).required();
  convert.add_option("--quantized", f->quantized, "Quantized model (QDQ) to take scales and zero points from");
  add_hub_flags(convert, f->hub);
  convert.add_option("-o,--output", f->output, "File to write; default: stdout");
  convert.callback([=, &context] { convert_command(*f, context); });
}

}  // namespace seqto::cli
