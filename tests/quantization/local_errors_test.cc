#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "seqto/explain.h"
#include "seqto/prepare.h"
#include "testing/rewrites.h"

namespace seqto {
namespace {

// Two samples of two positions with two channels each.
class LocalErrors : public ::testing::Test {
 protected:
  LocalErrors() : path_(folder_.path / "x.npz") {
    save_npz(path_, {{{"x", float_tensor({2, 1, 2, 2}, {1, -3, 3, 1, 2, 0, 2, 0})}}});
  }
  ~LocalErrors() override = default;

  std::vector<LocalError> errors(const Model& model, std::span<const Model> quantized = {}) {
    const auto data = open_dataset(path_, model.graph.free_inputs());
    const auto runner = make_runner("cpu");
    const std::vector<int64_t> samples{0, 1};
    return local_errors(model, quantized, {*data, samples, *runner});
  }

  TemporaryFolder folder_;
  std::filesystem::path path_;
};

Model product(const std::string& nodes, const Tensor& weight) {
  Model model =
      parse_model_text("<ir_version: 8, opset_import: [\"\" : 21]> g (float[1,2,2] x) => (float y) {" + nodes + "}");
  model.graph.initializers.push_back({"w", weight});
  return infer_shapes(model);
}

TEST_F(LocalErrors, AreThoseOfTheInputAndOfTheWeightIn8Bits) {
  // Outputs -1, 1 in steps of 2 / 255: both ends are half a step from their codes. The other's are exact.
  const auto found = errors(product("[m] y = MatMul(x, w)", float_tensor({2, 2}, {-1, 0, 1, 255})));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].layer, "m");
  EXPECT_NEAR(found[0].square, (10 / 2 + 10 / 2 + 4 + 0) / 4.0, 1e-6);
  EXPECT_NEAR(found[0].variance, (1 + 4 + 0 + 0) / 4.0, 1e-6);
  EXPECT_NEAR(found[0].magnitude, (3 + 3 + 2 + 0) / 4.0, 1e-6);
  EXPECT_NEAR(found[0].worst_output, 1 / 255.0 / 255, 1e-9);
  EXPECT_NEAR(found[0].norm, std::sqrt(2) / 255, 1e-9);
  EXPECT_TRUE(found[0].relative.empty());
}

TEST_F(LocalErrors, KnowTheOutputsOfAWeightThatIsReadTransposed) {
  const Tensor weight = float_tensor({3, 2}, {1, 2, 3, 4, 5, 7});
  const auto turned = errors(product("t = Transpose<perm = [1, 0]>(w) [m] y = MatMul(x, t)", weight));
  const auto plain = errors(product("[m] y = MatMul(x, w)", float_tensor({2, 3}, {1, 3, 5, 2, 4, 7})));
  ASSERT_EQ(turned.size(), 1u);
  EXPECT_DOUBLE_EQ(turned[0].worst_output, plain[0].worst_output);
  EXPECT_DOUBLE_EQ(turned[0].norm, plain[0].norm);
}

TEST_F(LocalErrors, WeighTheErrorsOfEachQuantizedModelByTheInputs) {
  constexpr int64_t kInputs = 64, kOutputs = 48;
  const std::vector<float> x = testing_rewrites::values(4, kInputs, 1),
                           was = testing_rewrites::values(kInputs, kOutputs, 2);
  save_npz(path_, {{{"x", float_tensor({2, 1, 2, kInputs}, x)}}});
  Model model = parse_model_text(
      "<ir_version: 8, opset_import: [\"\" : 21]> g (float[1,2,64] x) => (float y) { [m] y = MatMul(x, w) }");
  model.graph.initializers.push_back({"w", float_tensor({kInputs, kOutputs}, was)});
  model = infer_shapes(model);
  const Model quantized = Quantizer(model, {}, {}).quantize(uniform_plan(model, Scheme::kInt4Weights));
  const Model twin = dequantize(quantized).model;
  const Tensor* now = nullptr;
  for (const Initializer& i : twin.graph.initializers)
    if (i.tensor.element_count() == kInputs * kOutputs) now = &i.tensor;
  ASSERT_NE(now, nullptr);
  double wanted = 0;
  for (size_t o = 0; o < kOutputs; ++o) {
    double noise = 0, signal = 0;
    for (size_t i = 0; i < kInputs; ++i) {
      double square = 0;
      for (size_t row = 0; row < 4; ++row) square += x[row * kInputs + i] * x[row * kInputs + i] / 4.0;
      const double w = was[i * kOutputs + o], off = w - now->values<float>()[i * kOutputs + o];
      noise += square * off * off, signal += square * w * w;
    }
    wanted += noise / signal;
  }
  EXPECT_GT(wanted, 0);
  const std::vector<Model> both{quantized, model};
  const auto found = errors(model, both);
  ASSERT_EQ(found[0].relative.size(), 2u);
  EXPECT_NEAR(found[0].relative[0], wanted, 1e-4 * wanted);
  EXPECT_EQ(found[0].relative[1], 0) << "float";
}

}  // namespace
}  // namespace seqto
