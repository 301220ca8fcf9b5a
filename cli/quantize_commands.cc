// calibrate, quantize, analyze and run: one model and its data.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "flags.h"
#include "seqto/analyze.h"
#include "seqto/error.h"
#include "seqto/report.h"

namespace seqto::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string model, output, ranges, plan, quantized, mode = "static";
  std::vector<std::string> exclude;
  bool prepare = false;
  DataFlags data;
  DeviceFlags device;
  QuantizeFlags quantize;
};

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw Error(Code::kInvalidInput,
                fmt::format("[read] {} cannot be read; an existing file was expected; check the path", path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Model load(const Flags& f, const Context& context) {
  Model model = load_for_quantizing(f.model, f.quantize.options.per_channel, context.env);
  if (f.prepare) model = prepare(model).model;
  return model;
}

Ranges ranges_of(const Flags& f, const Model& model, const Context& context) {
  if (!f.ranges.empty()) return load_ranges(f.ranges);
  if (f.data.path.empty())
    throw Error(Code::kUsage, "[quantize] neither --data nor --ranges found; static quantization needs one of them");
  auto data = open_dataset(f.data.path, model.graph.free_inputs(), f.data.options);
  auto runner = make_runner(f.device.device, f.device.options, context.env);
  return calibrate(model, *data, all_samples(*data), *runner, {.op_types = f.quantize.options.op_types}, context.env);
}

void calibrate_command(const Flags& f, const Context& context) {
  Model model = load(f, context);
  Ranges ranges = ranges_of(f, model, context);
  save_ranges(ranges, f.output);
  fmt::print("wrote the ranges of {} tensors to {}\n", ranges.size(), f.output);
}

void quantize_command(const Flags& f, const Context& context) {
  Model model = load(f, context);
  require_quantizable(model);
  QuantizeOptions options = f.quantize.parsed();
  options.exclude = f.exclude;
  Quantizer quantizer(model, ranges_of(f, model, context), options);
  Model result =
      f.plan.empty() ? quantizer.quantize_excluding({}) : quantizer.quantize(plan_from_json(read_text(f.plan)));
  check_model(result);
  save_model(result, f.output);
  int64_t before = serialized_size(model), after = serialized_size(result);
  for (const auto& id : quantizer.deviations())
    context.env.log(LogLevel::kInfo,
                    fmt::format("deviates from onnxruntime's quantizer at {} (docs/compatibility.md)", id));
  if (context.json) {
    Json j{{"output", f.output},
           {"size_bytes", after},
           {"float_size_bytes", before},
           {"deviations", quantizer.deviations()}};
    fmt::print("{}\n", j.dump(1));
  } else {
    fmt::print("wrote {}: {} instead of {}\n", f.output, format_bytes(after), format_bytes(before));
  }
}

void analyze_command(const Flags& f, const Context& context) {
  Model model = load(f, context);
  require_quantizable(model);
  auto data = open_dataset(f.data.path, model.graph.free_inputs(), f.data.options);
  auto runner = make_runner(f.device.device, f.device.options, context.env);
  auto samples = all_samples(*data);
  Model quantized;
  if (f.quantized.empty()) {
    QuantizeOptions options = f.quantize.parsed();
    options.exclude = f.exclude;
    Ranges ranges = f.ranges.empty()
                        ? calibrate(model, *data, samples, *runner, {.op_types = options.op_types}, context.env)
                        : load_ranges(f.ranges);
    quantized = Quantizer(model, ranges, options).quantize_excluding({});
  } else {
    quantized = infer_shapes(load_model(f.quantized));
  }
  Sensitivity s = analyze(model, quantized, *data, samples, *runner, context.env);
  if (context.json) {
    Json activations = Json::array(), weights = Json::array();
    for (const auto& e : s.activations)
      activations.push_back(
          {{"tensor", e.tensor}, {"qdq_err", e.qdq_err}, {"xmodel_err", e.xmodel_err}, {"score", e.score}});
    for (const auto& e : s.weights) weights.push_back({{"tensor", e.tensor}, {"sqnr", e.sqnr}});
    fmt::print(
        "{}\n",
        Json{{"activations", activations}, {"weights", weights}, {"exclusion_order", exclusion_order(s, model)}}.dump(
            1));
    return;
  }
  fmt::print("{:48} {:>10} {:>12} {:>8}   (dB; larger is better)\n", "activation", "qdq_err", "xmodel_err", "score");
  for (const auto& e : s.activations)
    fmt::print("{:48} {:10.2f} {:12.2f} {:8.4f}\n", e.tensor, e.qdq_err, e.xmodel_err, e.score);
  fmt::print("\n{:48} {:>10}\n", "weight", "SQNR");
  for (const auto& e : s.weights) fmt::print("{:48} {:10.2f}\n", e.tensor, e.sqnr);
}

void run_command(const Flags& f, const Context& context) {
  Model model = load_model(f.model);
  auto data = open_dataset(f.data.path, model.graph.free_inputs(), f.data.options);
  auto runner = make_runner(f.device.device, f.device.options, context.env);
  auto session = runner->load_file(f.model);
  std::vector<std::vector<float>> values(session->output_names().size());
  std::vector<std::vector<int64_t>> dims(values.size());
  for (int64_t i : all_samples(*data)) {
    context.env.stop_if_cancelled("run");
    auto outputs = session->run(data->read(i).inputs);
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (i == 0) dims[o] = outputs[o].dims();
      if (outputs[o].dims() != dims[o])
        throw Error(Code::kInvalidInput,
                    fmt::format("[run] output '{}' changes its shape from sample to sample; one shape was "
                                "expected; run fewer samples",
                                session->output_names()[o]));
      for (int64_t k = 0; k < outputs[o].element_count(); ++k)
        values[o].push_back(static_cast<float>(element(outputs[o], k)));
    }
    context.env.progress({"run", i + 1, data->size(), ""});
  }
  std::vector<Initializer> arrays;
  for (size_t o = 0; o < values.size(); ++o) {
    // The batch axis of 1 becomes the axis of samples.
    std::vector<int64_t> shape = dims[o];
    if (!shape.empty() && shape[0] == 1) shape[0] = data->size();
    else shape.insert(shape.begin(), data->size());
    arrays.push_back({session->output_names()[o], float_tensor(shape, std::move(values[o]))});
  }
  save_npz(f.output, arrays);
  fmt::print("wrote {} outputs of {} samples to {}\n", arrays.size(), data->size(), f.output);
}

CLI::App* add_word(CLI::App& app, const char* name, const char* help, Flags& f, bool needs_data) {
  auto* word = app.add_subcommand(name, help);
  word->add_option("model", f.model, "ONNX file")->required();
  add_data_flags(word, f.data, needs_data);
  add_device_flags(word, f.device);
  return word;
}

void add_quantizer(CLI::App* word, Flags& f) {
  add_quantize_flags(word, f.quantize);
  word->add_option("--ranges", f.ranges, "Calibration cache, as `seqto calibrate` or onnxruntime writes it");
  word->add_option("--exclude", f.exclude, "Names of nodes to leave in float")->delimiter(',');
  word->add_flag("--prepare", f.prepare, "Prepare the model first, see `seqto prepare`");
}

}  // namespace

void add_calibrate(CLI::App& app, Context& context) {
  auto f = std::make_shared<Flags>();
  auto* word = add_word(app, "calibrate", "The ranges of a model's tensors over the data", *f, true);
  add_quantize_flags(word, f->quantize);
  word->add_option("-o,--output", f->output, "JSON file to write")->required();
  word->callback([=, &context] { calibrate_command(*f, context); });
}

void add_quantize(CLI::App& app, Context& context) {
  auto f = std::make_shared<Flags>();
  auto* word = add_word(app, "quantize", "One quantized model", *f, false);
  add_quantizer(word, *f);
  word->add_option("-o,--output", f->output, "ONNX file to write")->required();
  word->add_option("--plan", f->plan, "Plan: which layer gets which scheme");
  word->add_option("--mode", f->mode, "static")->check(CLI::IsMember({"static"}))->capture_default_str();
  word->callback([=, &context] { quantize_command(*f, context); });
}

void add_analyze(CLI::App& app, Context& context) {
  auto f = std::make_shared<Flags>();
  auto* word = add_word(app, "analyze", "How much each tensor suffers from quantization", *f, true);
  add_quantizer(word, *f);
  word->add_option("--quantized", f->quantized, "The quantized model; default: quantized here");
  word->callback([=, &context] { analyze_command(*f, context); });
}

void add_run(CLI::App& app, Context& context) {
  auto f = std::make_shared<Flags>();
  auto* word = add_word(app, "run", "A model's raw outputs over the data", *f, true);
  word->add_option("-o,--output", f->output, ".npz to write, one array per output")->required();
  word->callback([=, &context] { run_command(*f, context); });
}

}  // namespace seqto::cli
