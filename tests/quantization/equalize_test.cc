#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "seqto/improve.h"
#include "testing/rewrites.h"

namespace seqto {
namespace {

using namespace testing_rewrites;

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

class Equalize : public RewriteTest {
 protected:
  Model equalized(const Model& model, const EqualizeOptions& options) {
    return equalize(model, data(model), samples_, *runner_, options);
  }
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
    // The first layer's rows differ by 0.3 ^ 3; what they write is used more evenly afterwards, as far as the cap lets
    // it.
    EXPECT_LT(spread(*even.graph.initializer("w0"), 4), spread(*model.graph.initializer("w0"), 4) / 1.9);
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

TEST_F(Equalize, OnlyForTheLayersThatAsk) {
  const Model model = bottleneck();
  auto producer = [&](const char* tensor) {
    return std::ranges::find_if(model.graph.nodes, [&](const Node& n) { return n.outputs[0] == tensor; })->name;
  };
  const LayerId depthwise = producer("c"), classifier = producer("y");
  auto for_layer = [&](const LayerId& layer) {
    return equalized(model, {.readers = [=](const LayerId& reader) { return reader == layer; }});
  };
  auto changed = [&](const Model& even, const char* weight) {
    return !even.graph.initializer(weight)->equals(*model.graph.initializer(weight));
  };
  const Model first = for_layer(depthwise), last = for_layer(classifier);
  expect_same(model, first);
  expect_same(model, last);
  EXPECT_TRUE(changed(first, "w0") && changed(first, "w1") && !changed(first, "w3"));
  EXPECT_TRUE(!changed(last, "w0") && !changed(last, "w1") && changed(last, "w3"));
  EXPECT_TRUE(equal(model, for_layer("nobody")));
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

TEST_F(Equalize, AChannelThatTheSamplesHardlyUseKeepsRoomBelowTheCap) {
  // The capped layer's channels differ by 0.3 ^ 3; other samples may use the small ones as much as the large.
  const Model model = bottleneck();
  Model capped = model;
  capped.graph.outputs = {{"b", DataType::kFloat, {}, ""}};
  float top = 0;
  for (const auto& sample : outputs(capped)) top = std::max(top, *std::ranges::max_element(sample));
  const Model even = equalized(model, {.per_channel = true});
  const Tensor before = *model.graph.initializer("w0"), after = *even.graph.initializer("w0");
  ASSERT_LT(top, 6.0f);
  for (size_t channel = 0; channel < 4; ++channel) {
    const size_t at = channel * 36;
    const double larger = after.values<float>()[at] / before.values<float>()[at];
    EXPECT_GT(larger, 1);
    EXPECT_LE(larger * top / 2, 6.0) << channel;
  }
}

}  // namespace
}  // namespace seqto
