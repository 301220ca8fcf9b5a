// seqto prepare: a model made ready for calibration and quantization.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "flags.h"
#include "hub_flags.h"
#include "print_json.h"
#include "seqto/error.h"
#include "seqto/prepare.h"
#include "seqto/report.h"

namespace seqto::cli {
namespace {

struct Flags {
  std::string path, output, ranges;
  PrepareOptions options;
  std::map<std::string, int64_t> dims;
  std::map<std::string, double> fixed_inputs;
  DeviceFlags device;
  HubOptions hub;
  bool keep_batch_norms = false, keep_constants = false, skip_optimization = false, skip_shapes = false,
       dequantize = false, float32 = false;
};

// A quantized model's float twin; its ranges to `ranges`, if named.
Prepared back_to_float(const Model& model, const std::string& ranges) {
  Dequantized twin = dequantize(model);
  if (!ranges.empty()) save_ranges(twin.ranges, ranges);
  return {std::move(twin.model), std::move(twin.actions)};
}

// Nothing where no runtime is installed.
std::unique_ptr<Runner> runner_if_there(const DeviceFlags& device, const Context& context) {
  try {
    return make_runner(device.device, device.options, context.env);
  } catch (const Error& error) {
    if (error.code() != Code::kUnavailable) throw;
    return nullptr;
  }
}

void prepare_command(const Flags& f, const Context& context) {
  Model model = load_model(model_file(f.path, f.hub, context));
  if (!f.dims.empty()) model = with_dimensions(std::move(model), f.dims);
  model = with_constant_inputs(std::move(model), f.fixed_inputs);
  std::vector<std::string> actions;
  for (const auto& [name, value] : f.fixed_inputs)
    actions.push_back(fmt::format("made a constant of the input {}: {}", name, value));
  if (f.float32) {
    model = in_float32(model);
    actions.emplace_back("computes in float32");
  }
  if (f.dequantize) {
    Prepared twin = back_to_float(model, f.ranges);
    model = std::move(twin.model);
    actions.insert(actions.end(), twin.actions.begin(), twin.actions.end());
  }
  Model in_order = model;
  sort_nodes(in_order);
  check_model(in_order);
  PrepareOptions options = f.options;
  options.fold_batch_norms = !f.keep_batch_norms;
  options.lift_constants = !f.keep_constants;
  options.infer_shapes = !f.skip_shapes;
  // The runtime folds them as well, and renames tensors that the ranges of a float twin name.
  const bool optimize = !f.skip_optimization && !f.keep_batch_norms && !f.dequantize;
  const auto runner =
      optimize ? make_runner(f.device.device, f.device.options, context.env) : runner_if_there(f.device, context);
  Prepared prepared = preprocess(model, optimize ? runner.get() : nullptr, options);
  prepared.actions.insert(prepared.actions.begin(), actions.begin(), actions.end());
  check_model(prepared.model);
  check_loads(prepared, model, runner.get());
  save_model(prepared.model, f.output);
  int64_t size = serialized_size(prepared.model);
  if (context.json) {
    nlohmann::ordered_json j{{"output", f.output},
                             {"size_bytes", size},
                             {"opset", prepared.model.opset()},
                             {"nodes", prepared.model.graph.nodes.size()},
                             {"nodes_before", model.graph.nodes.size()},
                             {"actions", prepared.actions}};
    print_json(j);
    return;
  }
  for (const auto& action : prepared.actions) fmt::print("{}\n", action);
  fmt::print("wrote {} ({})\n", f.output, format_bytes(size));
}

}  // namespace

void add_prepare(Command app, Context& context) {
  auto f = std::make_shared<Flags>();
  const Command word =
      app.add_subcommand("prepare", "Names, opset, optimization by the runtime, BatchNormalization folding, shapes");
  word.add_option("model", f->path, kModelHelp).required();
  word.under("Output").add_option("-o,--output", f->output, "File to write").required();
  word.add_option("--opset,--min-opset", f->options.min_opset, "Convert older opsets up to this one; 0: leave")
      .capture_default_str();
  word.add_flag("--skip-optimization", f->skip_optimization, "Without the runtime's basic optimization");
  word.add_flag("--skip-shapes", f->skip_shapes, "Without shape inference");
  word.add_flag("--keep-batch-norms", f->keep_batch_norms,
                "Do not fold BatchNormalization; without the runtime's optimization then, which would");
  word.add_flag("--keep-constants", f->keep_constants, "Leave Constant nodes as they are");
  const Option dequantize =
      word.add_flag("--dequantize", f->dequantize,
                    "Turn a quantized model back to float first; without the runtime's optimization then");
  word.under("Output")
      .add_option("--write-ranges", f->ranges, "With --dequantize: the ranges that the model was quantized for")
      .needs(dequantize);
  word.add_flag("--float32", f->float32,
                "Have a float16 model compute in float32, with inputs and outputs in float32 too");
  add_dim_flag(word, f->dims);
  add_fix_input_flag(word, f->fixed_inputs);
  add_device_flags(word, f->device);
  add_hub_flags(word, f->hub);
  word.callback([=, &context] { prepare_command(*f, context); });
}

}  // namespace seqto::cli
