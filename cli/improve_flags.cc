#include "improve_flags.h"

#include "seqto/error.h"

namespace seqto::cli {

void add_improve_flags(CLI::App* word, ImproveFlags& f) {
  word->add_option("--bias-correction", f.bias_correction,
                   "Let biases take up the mean error of their layers: none, fast or full")
      ->check(CLI::IsMember({"none", "fast", "full"}))
      ->capture_default_str();
}

Model corrected(const Model& float_model, Model quantized, const ImproveFlags& f, const DataFlags& data_flags,
                const DeviceFlags& device, const Env& env) {
  BiasCorrection correction = parse_bias_correction(f.bias_correction);
  if (correction == BiasCorrection::kNone) return quantized;
  if (data_flags.path.empty())
    throw Error(Code::kUsage, "[quantize] --bias-correction without --data found; it runs both models on samples");
  auto data = open_dataset(data_flags.path, float_model.graph.free_inputs(), data_flags.options);
  auto runner = make_runner(device.device, device.options, env);
  auto shifts = bias_shifts(float_model, quantized, correction, *data, all_samples(*data), *runner, env);
  return shift_biases(quantized, shifts);
}

}  // namespace seqto::cli
