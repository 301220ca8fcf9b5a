#include "improve_flags.h"

#include <fmt/format.h>

#include "seqto/error.h"

namespace seqto::cli {
namespace {

void require_data(const char* flag, const DataFlags& data) {
  if (data.path.empty())
    throw Error(Code::kUsage, fmt::format("[quantize] {} without --data found; it runs the model on samples", flag));
}

}  // namespace

void add_improve_flags(CLI::App* word, ImproveFlags& f) {
  word->add_flag("--improve", f.improve,
                 "What helps most on average, for some more time: --equalize --rounding learned");
  word->add_flag("--equalize", f.equalize, "Even out the channels of tensors before they are quantized");
  word->add_flag("--smooth-quant", f.smooth,
                 "Move outlier channels of activations into the weights of MatMul and Gemm; static and dynamic");
  word->add_option("--smooth-alpha", f.smooth_alpha,
                   "How much of them: 0 to 1, or auto: for each activation the best on a few samples")
      ->check(CLI::Range(0.0, 1.0) | CLI::IsMember({"auto"}))
      ->capture_default_str();
  word->add_option("--bias-correction", f.bias_correction,
                   "Let biases take up the mean error of their layers: none, fast or full")
      ->check(CLI::IsMember({"none", "fast", "full"}))
      ->capture_default_str();
  word->add_option("--rounding", f.rounding,
                   "nearest, or learned: each weight rounded so that its layer's output comes near the float model's")
      ->check(CLI::IsMember({"nearest", "learned"}))
      ->capture_default_str();
}

Model improved(Model model, const ImproveFlags& f, const QuantizeOptions& options, bool dynamic,
               const DataFlags& data_flags, const DeviceFlags& device, const Env& env) {
  bool equalized = f.equalize || f.improve;
  if (!equalized && !f.smooth) return model;
  require_data(f.improve ? "--improve" : f.equalize ? "--equalize" : "--smooth-quant", data_flags);
  auto data = open_dataset(data_flags.path, model.graph.free_inputs(), data_flags.options);
  auto runner = make_runner(device.device, device.options, env);
  auto samples = all_samples(*data);
  if (equalized) model = equalize(model, *data, samples, *runner, {.per_channel = options.per_channel}, env);
  if (!f.smooth) return model;
  SmoothOptions smoothing{.per_channel = options.per_channel};
  if (f.smooth_alpha == "auto") smoothing.alpha.reset();
  else smoothing.alpha = std::stod(f.smooth_alpha);
  if (!dynamic) smoothing.quantized_ops = options.op_types.empty() ? default_op_types() : options.op_types;
  return smooth(model, *data, samples, *runner, smoothing, env);
}

Model corrected(const Model& float_model, Model quantized, const ImproveFlags& f, const DataFlags& data_flags,
                const DeviceFlags& device, const Env& env) {
  BiasCorrection correction = parse_bias_correction(f.bias_correction);
  bool learned = f.rounding == "learned" || f.improve;
  if (correction == BiasCorrection::kNone && !learned) return quantized;
  require_data(learned ? "--rounding learned" : "--bias-correction", data_flags);
  auto data = open_dataset(data_flags.path, float_model.graph.free_inputs(), data_flags.options);
  auto runner = make_runner(device.device, device.options, env);
  auto samples = all_samples(*data);
  if (learned)
    quantized = apply_rounding(quantized, learn_rounding(float_model, quantized, *data, samples, *runner, {}, env));
  if (correction == BiasCorrection::kNone) return quantized;
  auto shifts = bias_shifts(float_model, quantized, correction, *data, samples, *runner, env);
  return shift_biases(quantized, shifts);
}

}  // namespace seqto::cli
