// What a study writes keeps its 7-bit weights to 7 bits: of the search's corrections and of those of single plans.
#include <gtest/gtest.h>

#include <filesystem>
#include <unordered_map>

#include "quantization/arithmetic/arithmetic.h"
#include "seqto/tune.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

// Codes behind DequantizeLinear that a Conv, Gemm or MatMul multiplies with codes.
std::vector<const Tensor*> integer_weights(const Model& model) {
  std::unordered_map<std::string, const Node*> dequantizers;
  std::unordered_map<std::string, const Tensor*> initializers;
  for (const Initializer& i : model.graph.initializers) initializers[i.name] = &i.tensor;
  for (const Node& n : model.graph.nodes)
    if (n.op_type == "DequantizeLinear") dequantizers[n.outputs[0]] = &n;
  std::vector<const Tensor*> weights;
  for (const Node& n : model.graph.nodes) {
    if (n.op_type != "Conv" && n.op_type != "Gemm" && n.op_type != "MatMul") continue;
    const auto input = dequantizers.find(n.inputs[0]), weight = dequantizers.find(n.inputs[1]);
    if (input == dequantizers.end() || weight == dequantizers.end()) continue;
    if (const auto it = initializers.find(weight->second->inputs[0]); it != initializers.end())
      weights.push_back(it->second);
  }
  return weights;
}

TEST(Tune, KeepsSevenBitWeightsToSevenBits) {
  const fs::path dir = fs::temp_directory_path() / "seqto_tune_reduced_range_test";
  fs::remove_all(dir);
  TuneOptions options;
  const fs::path sample = fs::path(SEQTO_SOURCE_DIR) / "examples" / "digits";
  options.model = sample / "model.onnx";
  options.data = sample / "digits.npz";
  options.calibration_samples = 32;
  options.evaluation_samples = 64;
  options.output = dir;
  options.search.objectives = {"kl", "size", "latency"};
  options.schemes = {"int8", "int8_weights", "float32"};
  options.improvers = recommended_improvers();
  // As fast_types sets them on a processor without VNNI.
  options.fast_types = false;
  options.quantize.activation_type = DataType::kUint8;
  options.quantize.per_channel = options.quantize.reduce_range = true;
  options.search.evaluations = 40;
  // Plans within it get codes of their own.
  options.limits = {{.figure = "size_ratio", .bound = 0.5, .at_most = true, .asked_by = "--max-size"}};
  const Summary summary = tune(options);
  EXPECT_TRUE(fs::exists(dir / "corrections.npz"));
  size_t looked_at = 0;
  for (const auto& file : fs::directory_iterator(dir / "models")) {
    if (file.path().stem() == "published") continue;  // onnxruntime's defaults: 8 bits
    const Model model = load_model(file.path());
    for (const Tensor* codes : integer_weights(model)) {
      ++looked_at;
      for (int64_t i = 0; i < codes->element_count(); ++i)
        ASSERT_LE(std::abs(element(*codes, i)), 64) << file.path().filename();
    }
  }
  EXPECT_GT(looked_at, 4u);
  fs::remove_all(dir);
}

}  // namespace
}  // namespace seqto
