#include "word_flags.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "seqto/dialects.h"
#include "seqto/error.h"

namespace seqto::cli {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw Error(Code::kInvalidInput,
                fmt::format("[read] {} cannot be read; an existing file was expected; check the path", path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  if (path.empty() || path == "-") {
    fmt::print("{}", text);
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush())
    throw Error(Code::kInvalidInput, fmt::format("[write] {} cannot be written; check folder and rights", path));
}

namespace {

// Overrides and the plans of other tools name layers, tensors and scales of the model as it came.
bool folds_batch_norms(const WordFlags& f) {
  if (!f.quantize.tensor_overrides.empty()) return false;
  return f.plan.empty() ? f.best : detect_dialect(read_text(f.plan)) == Dialect::kSeqto;
}

void require_tensors(const CalibrateOptions& calibration, const Model& model) {
  std::vector<std::string> tensors;
  for (const Node& node : model.graph.nodes)
    for (const auto* names : {&node.inputs, &node.outputs}) tensors.insert(tensors.end(), names->begin(), names->end());
  for (const auto& [pattern, method] : calibration.tensor_methods) {
    const auto fits = [&](const std::string& tensor) {
      return pattern == tensor || ::fnmatch(pattern.c_str(), tensor.c_str(), 0) == 0;
    };
    if (std::ranges::none_of(tensors, fits))
      throw Error(Code::kUsage,
                  fmt::format("[calibrate] --tensor-method {}={} found, which fits no tensor of the model{}", pattern,
                              to_string(method), did_you_mean(pattern, tensors)));
  }
}

}  // namespace

Model load_model_of(const WordFlags& f, const Context& context) {
  Model model =
      load_for_quantizing(model_file(f.model, f.hub, context), f.quantize.parsed(), context.env, folds_batch_norms(f));
  if (f.prepare) model = prepare(model).model;
  require_tensors(f.quantize.calibration(), model);
  return model;
}

Workbench open_workbench(const WordFlags& f, const Model& model, const std::string& asked_by, bool once,
                         const Context& context) {
  if (f.data.path.empty())
    throw Error(Code::kUsage,
                fmt::format("[quantize] {} without --data found; samples expected; give --data", asked_by));
  DataFlags data = f.data;
  if (once) data.options.cache_bytes = 0;
  if (!f.quantize.compat.empty()) data.options.order = SampleOrder::kGiven;
  Workbench bench{open_data(f.model, model, data, context), {}, nullptr};
  bench.samples = all_samples(*bench.data);
  if (bench.data->is_random())
    context.env.log(LogLevel::kWarning, "the inputs are random numbers: what follows from their values means nothing");
  bench.runner = runner_for(model, f.data, f.device.device, f.device.options, context);
  return bench;
}

Ranges ranges_of(const WordFlags& f, const Model& model, const Workbench& bench, const Context& context) {
  if (!f.ranges.empty()) return load_ranges(f.ranges);
  return calibrate(model, {*bench.data, bench.samples, *bench.runner, context.env}, f.quantize.calibration());
}

Command add_word(Command app, const char* name, const char* help, WordFlags& f, bool needs_data) {
  const Command word = app.add_subcommand(name, help);
  add_config_flag(word);
  word.add_option("model", f.model, kModelHelp).required();
  add_data_flags(word, f.data, needs_data);
  add_device_flags(word, f.device);
  add_hub_flags(word, f.hub);
  return word;
}

void add_quantizer(Command word, WordFlags& f) {
  add_quantize_flags(word, f.quantize);
  f.data.options.order = SampleOrder::kMixed;
  word.under("Input").add_option("--ranges", f.ranges, "Ranges that `seqto calibrate` or onnxruntime wrote");
  word.under("Scheme")
      .add_option("--exclude,--nodes-to-exclude", f.exclude, "Stay in float: names, globs or op:TYPE")
      .type_name("NAMES")
      .delimiter(',');
  word.under("Input")
      .add_flag("--prepare", f.prepare, "Shapes and constants first, as `seqto prepare --skip-optimization`")
      .in_detail();
}

}  // namespace seqto::cli
