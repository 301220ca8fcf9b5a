// A test for a model's own repository: the quantized model still answers as the float one. Exit code 0 or 5.
//
//   parity_test FLOAT.onnx QUANTIZED.onnx DATA
#include <cstdio>

#include "seqto/error.h"
#include "seqto/validate.h"

namespace {

using namespace seqto;

bool answers_alike(const char* float_path, const char* quantized_path, const char* data_path) {
  const Model model = load_model(float_path);
  require_same_signature(model, load_model(quantized_path));
  auto data = open_dataset(data_path, model.graph.free_inputs());
  auto runner = make_runner("cpu");
  const ParityOptions limits{.abs_tol = 5, .mean_tol = 0.5, .min_top1_agreement = 0.99};
  const Parity parity =
      validate({float_path, runner.get(), data.get()}, {quantized_path, runner.get(), data.get()}, limits);

  for (const OutputParity& output : parity.outputs) {
    std::printf("%s %s: at most %.3g off (sample %s), %.3g in the mean", passed(output, limits) ? "ok  " : "FAIL",
                output.name.c_str(), output.max_abs, output.max_sample.c_str(), output.mean_abs);
    if (output.top1_agreement) std::printf(", same first class for %.1f %%", 100 * *output.top1_agreement);
    std::printf("\n");
  }
  return passed(parity);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: parity_test FLOAT.onnx QUANTIZED.onnx DATA\n"), 2;
  try {
    return answers_alike(argv[1], argv[2], argv[3]) ? 0 : static_cast<int>(Code::kGateNotMet);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
