#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "seqto/improve.h"

namespace seqto {
namespace {

constexpr int64_t kSamples = 6, kChannels = 4, kSide = 5;

// Repeatable values in -1 .. 1, the channels of axis 0 of very different size.
std::vector<float> values(int64_t rows, int64_t columns, uint32_t seed) {
  std::vector<float> result;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      seed = seed * 1664525u + 1013904223u;
      result.push_back((static_cast<float>(seed >> 8) / 8388608.0f - 1.0f) * std::pow(0.3f, static_cast<float>(r % 4)));
    }
  return result;
}

Model with_weights(const char* text) {
  Model model = parse_model_text(text);
  auto add = [&](const char* name, std::vector<int64_t> dims, uint32_t seed) {
    int64_t columns = 1;
    for (size_t d = 1; d < dims.size(); ++d) columns *= dims[d];
    model.graph.initializers.push_back({name, float_tensor(dims, values(dims[0], columns, seed))});
  };
  add("w0", {4, 4, 3, 3}, 1);
  add("b0", {4}, 2);
  add("w1", {4, 1, 3, 3}, 3);
  add("w2", {4, 4, 1, 1}, 4);
  add("b2", {4}, 5);
  add("w3", {4, 3}, 6);
  name_nodes(model);
  return infer_shapes(model);
}

// A bottleneck with a capped Relu, a depthwise layer and a shortcut; a classifier at its end.
Model bottleneck() {
  return with_weights(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,3] y)
    <float zero = {0}, float cap = {6}> {
      a = Conv <pads = [1,1,1,1]> (x, w0, b0)
      b = Clip(a, zero, cap)
      c = Conv <group = 4, pads = [1,1,1,1]> (b, w1)
      d = Relu(c)
      e = Conv(d, w2, b2)
      s = Conv(d, w2, b2)
      f = Add(e, s)
      h = GlobalAveragePool(f)
      i = Flatten(h)
      y = Gemm(i, w3)
    })");
}

class Equalize : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / "seqto_equalize_test.npz";
    std::vector<Initializer> arrays{
        {"x", float_tensor({kSamples, kChannels, kSide, kSide}, values(kSamples, kChannels * kSide * kSide, 9))}};
    save_npz(path_, arrays);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Model equalized(const Model& model, const EqualizeOptions& options) {
    data_ = open_dataset(path_, model.graph.free_inputs());
    return equalize(model, *data_, samples_, *runner_, options);
  }
  std::vector<std::vector<float>> outputs(const Model& model) {
    auto session = runner_->load(model, {SessionOptions::Optimization::kNone});
    std::vector<std::vector<float>> result;
    for (int64_t i : samples_) {
      auto y = session->run(data_->read(i).inputs);
      result.emplace_back(y[0].values<float>().begin(), y[0].values<float>().end());
    }
    return result;
  }
  void expect_same(const Model& a, const Model& b) {
    auto x = outputs(a), y = outputs(b);
    for (size_t s = 0; s < x.size(); ++s)
      for (size_t c = 0; c < x[s].size(); ++c) EXPECT_NEAR(x[s][c], y[s][c], 1e-5 * (1 + std::abs(x[s][c])));
  }

  std::filesystem::path path_;
  std::unique_ptr<Dataset> data_;
  std::unique_ptr<Runner> runner_ = make_runner("cpu");
  std::vector<int64_t> samples_{0, 1, 2, 3, 4, 5};
};

double spread(const Tensor& weight, size_t rows) {
  auto v = weight.values<float>();
  size_t columns = v.size() / rows;
  double smallest = 1e30, largest = 0;
  for (size_t r = 0; r < rows; ++r) {
    double range = 0;
    for (size_t c = 0; c < columns; ++c) range = std::max<double>(range, std::abs(v[r * columns + c]));
    smallest = std::min(smallest, range);
    largest = std::max(largest, range);
  }
  return largest / smallest;
}

TEST_F(Equalize, KeepsTheFunctionAndEvensOutTheChannels) {
  Model model = bottleneck();
  for (bool per_channel : {false, true}) {
    Model even = equalized(model, {.per_channel = per_channel});
    EXPECT_FALSE(equal(model, even));
    expect_same(model, even);
    // The first layer's rows differ by 0.3 ^ 3; what they write is used evenly afterwards.
    EXPECT_LT(spread(*even.graph.initializer("w0"), 4), spread(*model.graph.initializer("w0"), 4) / 3);
  }
}

TEST_F(Equalize, CopiesAWeightThatTwoLayersShare) {
  Model model = bottleneck();
  Model even = equalized(model, {});
  const Node *e = nullptr, *s = nullptr;
  for (const Node& n : even.graph.nodes) {
    if (n.outputs[0] == "e") e = &n;
    if (n.outputs[0] == "s") s = &n;
  }
  ASSERT_TRUE(e && s);
  EXPECT_NE(e->inputs[1], s->inputs[1]);
  EXPECT_TRUE(even.graph.initializer(e->inputs[1])->equals(*even.graph.initializer(s->inputs[1])));
}

TEST_F(Equalize, LeavesWhatNoFactorPasses) {
  // Sigmoid is not homogeneous; x and y leave the model.
  Model model = with_weights(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,4,5,5] y) {
      a = Conv <pads = [1,1,1,1]> (x, w0, b0)
      b = Sigmoid(a)
      y = Conv(b, w2, b2)
    })");
  EXPECT_TRUE(equal(model, equalized(model, {})));
}

TEST_F(Equalize, AChannelThatTheCapCutsOffKeepsItsScale) {
  Model model = bottleneck();
  for (Initializer& i : model.graph.initializers)
    if (i.name == "cap") i.tensor = float_tensor({}, {0.5f});  // below most channels' values
  Model even = equalized(model, {.per_channel = true});
  expect_same(model, even);
}

}  // namespace
}  // namespace seqto
