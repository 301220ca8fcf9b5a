#include <gtest/gtest.h>

#include <cmath>

#include "seqto/improve.h"
#include "testing/rewrites.h"

namespace seqto {
namespace {

using namespace testing_rewrites;

class Center : public RewriteTest {
 protected:
  Model centered(const Model& model, const LayerPredicate& readers = {}) {
    return center(model, {data(model), samples_, *runner_}, {.readers = readers});
  }

  // How far the channels of a [1,4,5,5] tensor reach on either side of zero over the samples, in the mean.
  double lopsided(Model model, const char* tensor) {
    model.graph.outputs = {{tensor, DataType::kFloat, {}, ""}};
    double sum = 0;
    const auto tensors = outputs(model);
    const size_t size = tensors[0].size() / kChannels;
    for (size_t c = 0; c < kChannels; ++c) {
      float low = tensors[0][c * size], high = low;
      for (const auto& t : tensors)
        for (size_t i = 0; i < size; ++i) low = std::min(low, t[c * size + i]), high = std::max(high, t[c * size + i]);
      sum += std::abs(low + high) / 2 / kChannels;
    }
    return sum;
  }
};

void set_bias(Model& model, const char* name, std::vector<float> values) {
  for (Initializer& i : model.graph.initializers)
    if (i.name == name) i.tensor = float_tensor({std::ssize(values)}, values);
}

const Node& producer(const Model& model, const char* tensor) {
  for (const Node& n : model.graph.nodes)
    if (n.outputs[0] == tensor) return n;
  throw std::out_of_range(tensor);
}

// Two linear layers that share their bias, a shortcut; readers of both kinds, one of them without a bias.
Model shortcut() {
  Model model = with_weights(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,3] y) {
      a = Conv <pads = [1,1,1,1]> (x, w0, b0)
      r = Relu(a)
      e = Conv(r, w2, b2)
      q = Conv <group = 4> (e, w1)
      p = Conv(e, w2, b2)
      f = Add(e, p)
      m = MaxPool <kernel_shape = [3,3], pads = [1,1,1,1]> (f)
      h = GlobalAveragePool(m)
      i = Flatten(h)
      k = GlobalAveragePool(q)
      l = Flatten(k)
      j = Gemm(i, w3)
      o = Gemm(l, w3)
      y = Sub(j, o)
    })");
  set_bias(model, "b2", {9, -7, 5, -3});
  return model;
}

TEST_F(Center, KeepsTheFunctionAndMovesTheChannels) {
  const Model model = shortcut(), moved = centered(model);
  expect_same(model, moved);
  for (const char* tensor : {"e", "f"}) {
    EXPECT_GT(lopsided(model, tensor), 3);
    EXPECT_LT(lopsided(moved, tensor), 0.3) << tensor;
  }
  EXPECT_EQ(lopsided(model, "r"), lopsided(moved, "r"));
  EXPECT_NE(producer(moved, "e").inputs[2], producer(moved, "p").inputs[2]) << "each has its own bias now";
  EXPECT_EQ(producer(moved, "q").inputs.size(), 3u) << "a reader without a bias gets one";
  EXPECT_EQ(moved.graph.nodes.size(), model.graph.nodes.size());
}

TEST_F(Center, OnlyForTheLayersThatAskAndWhatIsLinkedWithThem) {
  Model model = with_weights(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,4,3,3] y) {
      e = Conv(x, w2, b2)
      p = Conv(x, w2, b2)
      f = Add(e, p)
      q = Conv(f, w2)
      r = Relu(q)
      s = Conv(r, w2, b2)
      y = Conv <group = 4, kernel_shape = [3,3]> (s, w1)
    })");
  set_bias(model, "b2", {9, -7, 5, -3});
  auto for_layer = [&](const LayerId& layer) {
    return centered(model, [=](const LayerId& reader) { return reader == layer; });
  };
  const LayerId behind_add = producer(model, "q").name, last = producer(model, "y").name;
  const Model linked = for_layer(behind_add), alone = for_layer(last);
  expect_same(model, linked);
  expect_same(model, alone);
  EXPECT_LT(lopsided(linked, "f"), 0.3);
  EXPECT_LT(lopsided(linked, "e"), lopsided(model, "e") / 2);
  EXPECT_EQ(lopsided(linked, "s"), lopsided(model, "s"));
  EXPECT_LT(lopsided(alone, "s"), 0.3);
  EXPECT_EQ(lopsided(alone, "f"), lopsided(model, "f"));
  EXPECT_TRUE(equal(model, for_layer("nobody")));
}

TEST_F(Center, LeavesWhatAConstantWouldChange) {
  // By the layer behind: its border is 0, Relu is not linear, an output is what others see.
  for (const char* reader : {"y = Conv <pads = [1,1,1,1]> (a, w0)", "y = Relu(a)",
                             "y = Conv <auto_pad = \"SAME_UPPER\"> (a, w0)", "y = Identity(a)", "y = Mul(a, a)"}) {
    const std::string text = std::string(R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[1,4,5,5] x) => (float[1,4,5,5] y) {
        a = Conv(x, w2, b2)
        )") + reader + "}";
    Model model = with_weights(text.c_str());
    set_bias(model, "b2", {9, -7, 5, -3});
    EXPECT_TRUE(equal(model, centered(model))) << reader;
  }
}

TEST_F(Center, OneReaderThatMustNotSeeItKeepsATensor) {
  Model model = with_weights(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,4,5,5] y) {
      a = Conv(x, w2, b2)
      b = Conv(a, w2)
      c = Relu(a)
      y = Add(b, c)
    })");
  set_bias(model, "b2", {9, -7, 5, -3});
  EXPECT_TRUE(equal(model, centered(model)));
}

}  // namespace
}  // namespace seqto
