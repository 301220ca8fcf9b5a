#include "seqto/explain.h"

#include <gtest/gtest.h>

#include <numeric>

#include "seqto/runner.h"

namespace seqto {
namespace {

Model two_layers() {
  Model model = parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[1, 2] x) => (float[1, 2] z)
    <float[2, 2] w = {1, -2, 3, 0.5}, float[2, 2] same = {0.5, 0.5, 0.5, 0.5}> {
      y = MatMul (x, w)
      z = MatMul (y, same)
    })");
  name_nodes(model);
  return infer_shapes(model);
}

// Rows {i, -i}.
class Counting : public Dataset {
 public:
  int64_t size() const override { return 4; }
  Sample read(int64_t i) const override {
    const auto v = static_cast<float>(i);
    return {.inputs = {float_tensor({1, 2}, {v, -v})}};
  }
  bool has_labels() const override { return false; }
  std::string fingerprint() const override { return "counting"; }
};

TEST(LayerView, TensorsOfEachLayer) {
  const auto layers = layer_tensors(two_layers());
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(layers[0].weights, std::vector<std::string>{"w"});
  EXPECT_EQ(layers[1].inputs, layers[0].outputs);
}

TEST(LayerView, ValuesAreThoseOfTheSamples) {
  const Model model = two_layers();
  const auto runner = make_runner("cpu");
  const Counting data;
  const std::vector<int64_t> samples{1, 2, 3};
  const Ranges ranges = calibrate(model, {data, samples, *runner});
  const Model full = Quantizer(model, ranges, {}).quantize(uniform_plan(model, Scheme::kInt8));
  const auto values = tensor_values(model, full, {data, samples, *runner});

  const TensorValues& x = values.at("x");
  EXPECT_EQ(x.lowest, -3);
  EXPECT_EQ(x.highest, 3);
  EXPECT_EQ(std::accumulate(x.histogram.counts.begin(), x.histogram.counts.end(), 0), 6);
  EXPECT_EQ(x.histogram.counts.front(), 1);  // -3, in the first bin that holds anything
  ASSERT_TRUE(x.quantized);
  EXPECT_EQ(x.quantized->type, DataType::kInt8);
  EXPECT_NEAR(x.quantized->scale, 6.0 / 255, 1e-6);
  EXPECT_LT(x.quantized->lowest, -2.9);

  const TensorValues& w = values.at("w");
  EXPECT_EQ(w.lowest, -2);
  EXPECT_EQ(w.highest, 3);
  EXPECT_EQ(w.histogram.counts.size(), static_cast<size_t>(kMostBins));
  EXPECT_EQ(w.histogram.counts.back(), 1);
  EXPECT_EQ(std::accumulate(w.histogram.counts.begin(), w.histogram.counts.end(), 0), 4);
  EXPECT_EQ(values.at("same").histogram.counts, std::vector<int64_t>{4});
}

}  // namespace
}  // namespace seqto
