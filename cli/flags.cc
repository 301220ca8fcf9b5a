#include "flags.h"

#include <fmt/format.h>

#include <numeric>
#include <unordered_set>

#include "seqto/error.h"

namespace seqto::cli {

void add_data_flags(CLI::App* word, DataFlags& f, bool required) {
  auto* data = word->add_option("--data", f.path, "Folder of images, .npz or .npy");
  if (required) data->required();
  word->add_option("--labels", f.options.labels, "CSV with the columns file,label; its order is the data set's");
  word->add_option("--preprocess", f.options.preprocess, "JSON file, or one of imagenet, unit, none");
  word->add_option("--samples", f.options.samples, "Use the first N samples (0: all)")->check(CLI::NonNegativeNumber);
  word->add_option("--random-samples", f.options.random_samples, "Use K samples drawn at random")->check(CLI::NonNegativeNumber);
  word->add_option("--seed", f.options.seed, "Seed of the drawing");
}

void add_device_flags(CLI::App* word, DeviceFlags& f) {
  word->add_option("--device", f.device, "Where to run: cpu")->capture_default_str();
  word->add_option("--threads", f.options.threads, "Threads of the runtime")->check(CLI::Range(1, 1024))->capture_default_str();
}

void add_quantize_flags(CLI::App* word, QuantizeFlags& f) {
  QuantizeOptions& o = f.options;
  word->add_option("--activation-type", f.activation_type, "int8, uint8, int16, uint16")->capture_default_str();
  word->add_option("--weight-type", f.weight_type, "int8, uint8, int16, uint16")->capture_default_str();
  word->add_flag("--per-channel", o.per_channel, "One scale per output channel of a weight");
  word->add_flag("--reduce-range", o.reduce_range, "7-bit weights, for CPUs whose kernels saturate");
  word->add_flag("--symmetric-activations", o.symmetric_activations, "Ranges of activations around 0");
  word->add_option("--symmetric-weights", f.symmetric_weights, "true or false; default: when the type is signed")
      ->check(CLI::IsMember({"true", "false"}));
  word->add_option("--method", f.method, "Calibration method: minmax")->check(CLI::IsMember({"minmax"}))->capture_default_str();
  word->add_option("--op-types", o.op_types, "Quantize these op types only")->delimiter(',');
  word->add_option("--include", o.include, "Quantize these nodes only")->delimiter(',');
}

QuantizeOptions QuantizeFlags::parsed() const {
  QuantizeOptions o = options;
  o.activation_type = parse_data_type(activation_type);
  o.weight_type = parse_data_type(weight_type);
  if (!symmetric_weights.empty()) o.symmetric_weights = symmetric_weights == "true";
  return o;
}

std::vector<ValueInfo> free_inputs(const Model& model) {
  std::unordered_set<std::string> constants;
  for (const Initializer& i : model.graph.initializers) constants.insert(i.name);
  std::vector<ValueInfo> inputs;
  for (const ValueInfo& v : model.graph.inputs)
    if (!constants.contains(v.name)) inputs.push_back(v);
  return inputs;
}

Model load_for_quantizing(const std::string& path, bool per_channel, const Env& env) {
  Model model = load_model(path);
  int64_t needed = per_channel ? 13 : 11;
  if (model.opset() > 0 && model.opset() < needed) {
    env.log(LogLevel::kInfo, fmt::format("opset {} converted to {}", model.opset(), needed));
    model = convert_opset(model, needed);
  }
  name_nodes(model);
  return infer_shapes(model);
}

std::vector<int64_t> all_samples(const Dataset& data) {
  std::vector<int64_t> samples(static_cast<size_t>(data.size()));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

}  // namespace seqto::cli
