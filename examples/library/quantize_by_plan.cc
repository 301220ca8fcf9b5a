// One quantized model under a plan of our own: int8 everywhere but in the first and the last layer.
//
//   quantize_by_plan MODEL.onnx DATA OUT.onnx
#include <cstdio>
#include <numeric>

#include "seqto/calibrate.h"
#include "seqto/error.h"
#include "seqto/metrics.h"
#include "seqto/quantize.h"

namespace {

using namespace seqto;

std::vector<LayerId> first_and_last(const Model& model) {
  std::vector<LayerId> quantizable;
  for (const Layer& layer : layers(model))
    if (layer.quantizable && layer.weight_bytes > 0) quantizable.push_back(layer.id);
  return {quantizable.front(), quantizable.back()};
}

Outputs answers(const Model& model, const Dataset& data, const std::vector<int64_t>& samples, Runner& runner) {
  auto session = runner.load(model);
  Outputs outputs;
  for (int64_t i : samples) outputs.append(session->run(data.read(i).inputs).front().values<float>());
  return outputs;
}

void quantize_by_plan(const char* model_path, const char* data_path, const char* out) {
  // What the processors of today are fast with; quantizable_form() brings names, shapes and the opset it needs.
  QuantizeOptions options;
  options.activation_type = DataType::kUint8;
  options.per_channel = true;
  const Model model = quantizable_form(load_model(model_path), options).model;

  auto data = open_dataset(data_path, model.graph.free_inputs());
  auto runner = make_runner("cpu");
  const Split parts = split(data->size(), {.calibration = 64});
  Quantizer quantizer(model, calibrate(model, {*data, parts.calibration, *runner}), options);

  const Plan plan = uniform_plan(model, Scheme::kInt8, first_and_last(model));
  const Model quantized = quantizer.quantize(plan);
  check_model(quantized);
  save_model(quantized, out);

  const Losses losses =
      compare(answers(model, *data, parts.evaluation, *runner), answers(quantized, *data, parts.evaluation, *runner));
  std::printf("plan %s: %zu layers in int8\n", plan.hash().c_str(), plan.schemes.size());
  std::printf("%lld bytes instead of %lld\n", static_cast<long long>(serialized_size(quantized)),
              static_cast<long long>(serialized_size(model)));
  std::printf("kl %.2g, another first class for %.2f %% of %zu samples\n", losses.kl, 100 * losses.top1_disagreement,
              parts.evaluation.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: quantize_by_plan MODEL.onnx DATA OUT.onnx\n"), 2;
  try {
    quantize_by_plan(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
