#include "word_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "seqto/error.h"
#include "seqto/target.h"

namespace seqto::cli {

void use_this_program(RunnerOptions& options) {
  // By this name the child finds the very file that this process runs, even where another has taken its place by now.
  if (options.worker.empty() && !std::getenv("SEQTO_WORKER")) options.worker = "/proc/self/exe";
}

namespace {

void print_devices(RunnerOptions options) {
  use_this_program(options);
  for (const DeviceStatus& d : list_devices(options))
    fmt::print("{:10} {:8} {}\n", d.device, d.available ? "there" : "missing", d.detail);
}

void add_provider_options(const std::vector<std::string>& pairs, RunnerOptions& options) {
  for (const auto& pair : pairs) {
    size_t at = pair.find('=');
    if (at == std::string::npos || at == 0)
      throw Error(Code::kUsage,
                  fmt::format("[runner] --provider-option {} found; KEY=VALUE as in device_id=0 expected", pair));
    options.provider_options[pair.substr(0, at)] = pair.substr(at + 1);
  }
}

}  // namespace

void add_device_flags(Command word, DeviceFlags& f, std::vector<std::string>* several) {
  const Command device_word = word.under("Device"), detail = device_word.in_detail();
  const char* help = "Where to run (docs/guide/devices.md), or list";
  // At once, so that `--device list` needs nothing else; each occurrence comes by itself then.
  auto take = [&f, several, given = false](const std::string& device) mutable {
    if (device == "list") {
      print_devices(f.options);
      end_parsing();
    }
    f.device = device;
    if (several && !std::exchange(given, true)) several->clear();
    if (several) several->push_back(device);
  };
  device_word.add_option_function<std::string>("--device", take, std::string(help) + (several ? "; repeatable" : ""))
      .trigger_on_parse()
      .type_name("cpu|cuda|tensorrt|openvino|webgpu|xnnpack|coreml|qnn|list")
      .default_str(f.device);
  detail.add_option("--runtime-library", f.options.library, "ONNX Runtime's library; default: $SEQTO_ORT_LIBRARY, ...");
  detail
      .add_option_function<std::vector<std::string>>(
          "--provider-option", [&f](const std::vector<std::string>& pairs) { add_provider_options(pairs, f.options); },
          "KEY=VALUE for the provider of the device; may be given several times")
      .one_value_each()  // what follows is not another
      .type_name("KEY=VALUE");
  device_word.add_option("--threads", f.options.threads, "Threads of the runtime")
      .check_range(1, 1024)
      .capture_default_str();
  add_tvm_flags(detail, f);
}

void add_tvm_flags(Command word, DeviceFlags& f) {
  RunnerOptions& o = f.options;
  word.add_option("--tvm-plugin", o.tvm_plugins, "TVM runtime to load, as libtvm_runtime_opencl.so; may be repeated")
      .one_value_each();
  word.add_option("--compile-timeout", o.compile_timeout_seconds, "Seconds that TVM may compile a model (0: no limit)")
      .check_not_negative()
      .capture_default_str();
  word.add_option("--reconnect", o.reconnect_seconds, "Seconds to wait for a device whose link broke")
      .check_not_negative()
      .capture_default_str();
}

void add_quantize_flags(Command word, QuantizeFlags& f) {
  constexpr const char* kTypes = "int8|uint8|int16|uint16|int4|uint4";
  QuantizeOptions& o = f.options;
  const Command scheme = word.under("Scheme"), detail = scheme.in_detail();
  scheme.add_option("--activation-type", f.activation_type, "Activations").type_name(kTypes).capture_default_str();
  scheme.add_option("--weight-type", f.weight_type, "Weights").type_name(kTypes).capture_default_str();
  scheme.add_flag("--per-channel", o.per_channel, "One scale per output channel of a weight");
  detail.add_flag("--per-token", o.per_token,
                  "Dynamic layers: a scale for each token, so that answers do not depend on the batch");
  scheme.add_flag("--reduce-range", o.reduce_range, "7-bit weights, for CPUs whose kernels saturate");
  detail.add_flag("--symmetric-activations", o.symmetric_activations, "Ranges of activations around 0");
  detail.add_flag("--power-of-two-scales", o.power_of_two_scales,
                  "Scales that are powers of two, for devices that shift");
  detail.add_option("--symmetric-weights", f.symmetric_weights, "true or false; default: when the type is signed")
      .check_one_of({"true", "false"});
  detail
      .add_option("--weight-clipping", f.weight_clipping, "none, or mse: ranges with the smallest error of each weight")
      .check_one_of({"none", "mse"})
      .capture_default_str();
  add_calibrate_flags(word.under("Ranges"), f.calibrate);
  scheme.add_option("--op-types-to-quantize,--op-types", o.op_types, "These op types only")
      .type_name("TYPES")
      .delimiter(',');
  scheme.add_option("--nodes-to-quantize,--include", o.include, "These nodes only, names or globs")
      .type_name("NAMES")
      .delimiter(',');
  add_qdq_flags(detail, f);
}

namespace {

std::map<std::string, int64_t> axes_by_op_type(const std::vector<std::string>& pairs) {
  std::map<std::string, int64_t> axes;
  for (const auto& pair : pairs) {
    size_t at = pair.find('=');
    int64_t axis = 0;
    const char* end = pair.data() + pair.size();
    bool good = at != std::string::npos &&
                std::from_chars(pair.data() + at + 1, end, axis) == std::from_chars_result{end, std::errc()};
    if (!good)
      throw Error(
          Code::kUsage,
          fmt::format("[quantize] --op-type-per-channel-axis {} found; TYPE=AXIS as in MatMul=0 expected", pair));
    axes[pair.substr(0, at)] = axis;
  }
  return axes;
}

}  // namespace

std::string flag_of(std::string_view field) {
  std::string flag = "--" + std::string(field);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

QuantizeOptions QuantizeFlags::parsed() const {
  QuantizeOptions o = options;
  o.activation_type = parse_data_type(activation_type);
  o.weight_type = parse_data_type(weight_type);
  o.weight_clipping = parse_weight_clipping(weight_clipping);
  if (!symmetric_weights.empty()) o.symmetric_weights = symmetric_weights == "true";
  o.op_type_per_channel_axis = axes_by_op_type(op_type_per_channel_axis);
  if (!tensor_overrides.empty()) o.tensor_overrides = tensor_overrides_from_json(read_text(tensor_overrides));
  o.compat_onnxruntime = !compat.empty();
  if (!target.empty()) take_target_types(o, load_target(target), named_types);
  else if (!fast_on.empty()) take_fast_types(o, fast_on);
  if (keeps_float16) o.widen_float16 = false;
  o.unify_concat = unify_concat.value_or(o.unify_concat);
  o.float_unlike_concat = float_unlike_concat.value_or(o.float_unlike_concat);
  o.headroom_16_bits = headroom_16_bits.value_or(o.headroom_16_bits);
  return o;
}

Model load_for_quantizing(const std::string& path, const QuantizeOptions& options, const Env& env, bool planned) {
  const Model model = load_model(path);
  Prepared prepared = planned ? tunable_form(model, options) : quantizable_form(model, options);
  for (const auto& action : prepared.actions) env.log(LogLevel::kDebug, action);
  if (is_widened(model, options))
    env.log(LogLevel::kInfo,
            "the model is in float16, which this device computes by casts: what is written computes in "
            "float32, its inputs and outputs stay");
  return std::move(prepared.model);
}

std::vector<int64_t> all_samples(const Dataset& data) {
  std::vector<int64_t> samples(static_cast<size_t>(data.size()));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

}  // namespace seqto::cli
