#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "seqto/explain.h"
#include "testing/rewrites.h"

namespace seqto {
namespace {

constexpr const char* kHead = R"(<ir_version: 8, opset_import: ["" : 17]> g (float[1,2] x) => (float[1,2] y)
                                 <float fine = {0.01}, float coarse = {0.5}, uint8 z = {0}, float low = {-3.4e38}> { )";

// The squares of a mask's lowest float are no float.
TEST(Analyze, AMaskedTensorLeavesTheScoresOfTheOthers) {
  const Model original = parse_model_text(
      std::string(kHead) + "a = Abs(x) b = Sqrt(a) m = Sub(b, b) n = Add(m, low) e = Exp(n) y = Add(b, e) }");
  const auto pair = [](const std::string& t, const std::string& scale) {
    return t + "_QuantizeLinear_Output = QuantizeLinear(" + t + ", " + scale + ", z) " + t +
           "_DequantizeLinear_Output = DequantizeLinear(" + t + "_QuantizeLinear_Output, " + scale + ", z) ";
  };
  const Model quantized = parse_model_text(
      kHead + ("a = Abs(x) " + pair("a", "coarse") + "b = Sqrt(a_DequantizeLinear_Output) " + pair("b", "fine")) +
      "m = Sub(b_DequantizeLinear_Output, b_DequantizeLinear_Output) n = Add(m, low) " + pair("n", "fine") +
      "e = Exp(n_DequantizeLinear_Output) y = Add(b_DequantizeLinear_Output, e) }");
  TemporaryFolder folder;
  const std::filesystem::path path = folder.path / "x.npz";
  save_npz(path, {{{"x", float_tensor({1, 2}, {0.6F, 1.3F})}}});
  const auto data = open_dataset(path, original.graph.free_inputs());
  const auto runner = make_runner("cpu");
  const std::vector<int64_t> samples{0};
  const Sensitivity found = analyze(infer_shapes(original), infer_shapes(quantized), {*data, samples, *runner});
  ASSERT_EQ(found.activations.size(), 3u);
  for (const ActivationError& e : found.activations) {
    SCOPED_TRACE(e.tensor);
    EXPECT_TRUE(std::isfinite(e.score)) << e.score;
    EXPECT_EQ(std::isfinite(e.qdq_err), e.tensor != "n") << e.qdq_err;
  }
  EXPECT_EQ(found.activations[0].tensor, "b");
  EXPECT_GT(found.activations[0].score, 0.4);
}

}  // namespace
}  // namespace seqto
