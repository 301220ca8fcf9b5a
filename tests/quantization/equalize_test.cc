#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "seqto/calibrate.h"
#include "seqto/improve.h"
#include "seqto/quantize.h"
#include "testing/rewrites.h"

namespace seqto {
namespace {

using namespace testing_rewrites;

// A capped Relu and a depthwise layer, d, and what `rest` makes of it.
Model capped(const std::string& y, const std::string& rest) {
  const std::string text = R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float)" +
                           y + R"( y)
    <float zero = {0}, float cap = {6}> {
      a = Conv <pads = [1,1,1,1]> (x, w0, b0)
      b = Clip(a, zero, cap)
      c = Conv <group = 4, pads = [1,1,1,1]> (b, w1)
      d = Relu(c)
    )" + rest + "}";
  return with_weights(text.c_str());
}

// With a shortcut, and a classifier at its end.
Model bottleneck() {
  return capped("[1,3]", R"(
      e = Conv(d, w2, b2)
      s = Conv(d, w2, b2)
      f = Add(e, s)
      h = GlobalAveragePool(f)
      i = Flatten(h)
      y = Gemm(i, w3))");
}

class Equalize : public RewriteTest {
 protected:
  Model equalized(const Model& model, const RewriteOptions& options) {
    return equalize(model, {data(model), samples_, *runner_}, options);
  }
  // The squared error of static int8.
  double lost(const Model& written, bool per_channel) {
    const Ranges ranges = calibrate(written, {data(written), samples_, *runner_});
    const QuantizeOptions types{.activation_type = DataType::kUint8, .per_channel = per_channel};
    const auto x = outputs(written),
               y = outputs(Quantizer(written, ranges, types).quantize(uniform_plan(written, Scheme::kInt8)));
    double sum = 0;
    for (size_t s = 0; s < x.size(); ++s)
      for (size_t c = 0; c < x[s].size(); ++c) sum += (x[s][c] - y[s][c]) * (x[s][c] - y[s][c]);
    return sum;
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
    // it, and where the reader's weights share one scale, as far as they do not lose more by it.
    const double before = spread(*model.graph.initializer("w0"), 4);
    EXPECT_LT(spread(*even.graph.initializer("w0"), 4), before / (per_channel ? 1.9 : 1.5)) << per_channel;
  }
}

TEST_F(Equalize, QuantizedModelsLoseLess) {
  for (bool per_channel : {false, true}) {
    // One network's rounding is chance: its few outputs say little about its hundreds of codes.
    double gained = 0;
    for (uint32_t seed = 0; seed < 40; ++seed) {
      Model model = capped("[1,4,5,5]", "y = Conv(d, w2, b2)");
      for (Initializer& i : model.graph.initializers)
        if (i.name[0] == 'w') {
          std::vector<float> drawn(i.tensor.values<float>().begin(), i.tensor.values<float>().end());
          const auto factors = values(1, static_cast<int64_t>(drawn.size()), 100 + seed);
          for (size_t k = 0; k < drawn.size(); ++k) drawn[k] *= 1 + factors[k] / 2;
          i.tensor = float_tensor(i.tensor.dims(), std::move(drawn));
        }
      gained += std::log(lost(model, per_channel) / lost(equalized(model, {.per_channel = per_channel}), per_channel));
    }
    EXPECT_GT(gained / 40, 0.04) << per_channel;
  }
}

// A norm whose first channel stands out, and the two layers that read it with so much smaller weights; `rest` makes y.
Model behind_a_norm(const std::string& rest) {
  const std::string text = R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,5,5,4] y)
    <float[4] gain = {30, 1, 0.9, 1.1}, float[4] shift = {3, 0.1, -0.2, 0}> {
      t = Transpose <perm = [0,2,3,1]> (x)
      n = LayerNormalization <axis = -1> (t, gain, shift)
      q = MatMul(n, wq)
      k = MatMul(n, wk)
    )" + rest + "}";
  Model model = with_weights(text.c_str());
  for (const auto& [name, seed] : {std::pair{"wq", 7u}, {"wk", 8u}}) {
    std::vector<float> drawn = values(1, 16, seed);
    for (size_t c = 0; c < 4; ++c) drawn[c] /= 30;
    model.graph.initializers.push_back({name, float_tensor({4, 4}, std::move(drawn))});
  }
  return infer_shapes(model);
}

TEST_F(Equalize, GoesIntoTheNormThatLayersRead) {
  const Model model = behind_a_norm("y = Add(q, k)");
  for (bool per_channel : {false, true}) {
    const Model even = equalized(model, {.per_channel = per_channel});
    expect_same(model, even);
    const auto gains = even.graph.initializer("gain")->values<float>();
    EXPECT_LT(gains[0] / gains[1], 10) << per_channel;  // 30 before
    EXPECT_LT(lost(even, per_channel), lost(model, per_channel) / 5) << per_channel;
  }
}

// x as 25 tokens of four channels, t; `rest` makes y. Of a matrix named w*_up the first column stands out, of one named
// w*_down the rows of `small` are as much smaller.
Model of_tokens(const std::string& y, const std::string& rest,
                const std::vector<std::pair<std::string, std::vector<int64_t>>>& matrices,
                const std::vector<int64_t>& small = {0}) {
  const std::string text = R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float)" +
                           y + R"( y)
    <int64[3] tokens = {1, 25, 4}, int64[4] heads = {1, 25, 2, 2}, int64[4] one = {1, 25, 1, 2},
     int64[4] both = {1, 2, 25, 2}, int64[3] mixed = {1, 20, 5}> {
      f = Transpose <perm = [0,2,3,1]> (x)
      t = Reshape(f, tokens)
    )" + rest + "}";
  Model model = with_weights(text.c_str());
  uint32_t seed = 20;
  for (const auto& [name, dims] : matrices) {
    std::vector<float> drawn = values(1, dims[0] * dims[1], seed++);
    if (name.ends_with("_up"))
      for (int64_t r = 0; r < dims[0]; ++r) drawn[static_cast<size_t>(r * dims[1])] *= 30;
    if (name.ends_with("_down"))
      for (int64_t row : small)
        for (int64_t c = 0; c < dims[1]; ++c) drawn[static_cast<size_t>(row * dims[1] + c)] /= 30;
    model.graph.initializers.push_back({name, float_tensor(dims, std::move(drawn))});
  }
  return infer_shapes(model);
}

TEST_F(Equalize, GoesThroughAGate) {
  const Model model = of_tokens("[1,25,3]", R"(
      g = MatMul(t, wg)
      h = Sigmoid(g)
      u = MatMul(t, wu_up)
      m = Mul(h, u)
      y = MatMul(m, wo_down))",
                                {{"wg", {4, 6}}, {"wu_up", {4, 6}}, {"wo_down", {6, 3}}});
  for (bool per_channel : {false, true}) {
    const Model even = equalized(model, {.per_channel = per_channel, .quantized_ops = {"MatMul", "Mul"}});
    expect_same(model, even);
    EXPECT_LT(lost(even, per_channel), lost(model, per_channel) / 5) << per_channel;
  }
}

// Two heads of queries, one of keys and values.
constexpr const char* kAttention = R"(
      q = MatMul(t, wq)
      q4 = Reshape(q, heads)
      q3 = Transpose <perm = [0,2,1,3]> (q4)
      k3 = Transpose <perm = [0,2,3,1]> (q4)
      scores = MatMul(q3, k3)
      p = Softmax <axis = -1> (scores)
      v = MatMul(t, wv_up)
      asked = Shape(v)
      v4 = Reshape(v, one)
      v3 = Transpose <perm = [0,2,1,3]> (v4)
      vs = Expand(v3, both)
      o = MatMul(p, vs)
    )";

TEST_F(Equalize, GoesThroughTheValuesOfAnAttention) {
  const Model model = of_tokens("[1,25,3]", std::string(kAttention) + R"(
      o4 = Transpose <perm = [0,2,1,3]> (o)
      m = Reshape(o4, tokens)
      y = MatMul(m, wo_down))",
                                {{"wq", {4, 4}}, {"wv_up", {4, 2}}, {"wo_down", {4, 3}}}, {0, 2});
  for (bool per_channel : {false, true}) {
    const Model even = equalized(model, {.per_channel = per_channel, .quantized_ops = {"MatMul"}});
    expect_same(model, even);
    EXPECT_LT(lost(even, per_channel), lost(model, per_channel) / 5) << per_channel;
  }
}

TEST_F(Equalize, LeavesAnAttentionWhoseChannelsAreMixed) {
  const Model model = of_tokens("[1,20,3]", std::string(kAttention) + R"(
      m = Reshape(o, mixed)
      y = MatMul(m, wo_down))",
                                {{"wq", {4, 4}}, {"wv_up", {4, 2}}, {"wo_down", {5, 3}}});
  EXPECT_TRUE(equal(model, equalized(model, {})));
}

// Values that come first of a matrix for keys and values: dividing its columns would change the keys too.
TEST_F(Equalize, LeavesValuesThatArePackedWithKeys) {
  const Model model = of_tokens("[1,25,3]", R"(
      both = MatMul(t, wkv_up)
      v, k = Split <axis = -1> (both)
      kt = Transpose <perm = [0,2,1]> (k)
      q = MatMul(t, wq)
      scores = MatMul(q, kt)
      p = Softmax <axis = -1> (scores)
      m = MatMul(p, v)
      y = MatMul(m, wo_down))",
                                {{"wkv_up", {4, 4}}, {"wq", {4, 2}}, {"wo_down", {2, 3}}});
  EXPECT_TRUE(equal(model, equalized(model, {.quantized_ops = {"MatMul"}})));
}

// The weights of this one do not sum to 1, so nothing tells whose channels they are.
TEST_F(Equalize, LeavesProductsThatAreNoAttention) {
  std::string rest = kAttention;
  rest.replace(rest.find("p = Softmax <axis = -1> (scores)"), 32, "p = Relu(scores)");
  const Model model = of_tokens("[1,25,3]", rest + R"(
      o4 = Transpose <perm = [0,2,1,3]> (o)
      m = Reshape(o4, tokens)
      y = MatMul(m, wo_down))",
                                {{"wq", {4, 4}}, {"wv_up", {4, 2}}, {"wo_down", {4, 3}}}, {0, 2});
  EXPECT_TRUE(equal(model, equalized(model, {})));
}

TEST_F(Equalize, LeavesANormThatAShortcutReadsToo) {
  const Model model = behind_a_norm("m = Add(q, k)\n y = Add(m, n)");
  EXPECT_TRUE(equal(model, equalized(model, {})));
}

// Two branches that a Concat joins, whose channels are shuffled, parted, padded with zeros and flattened.
const char* const kMoves = R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,3] y)
    <int64[5] wide = {1, 2, 4, 5, 5}, int64[4] back = {1, 8, 5, 5}, int64[2] halves = {4, 4},
     int64[8] pads = {0, 2, 0, 0, 0, 2, 0, 0}, int64[1] from = {2}, int64[1] to = {6}, int64[1] axis = {1}> {
      a = Conv <pads = [1,1,1,1]> (x, w0, b0)
      b = Relu(a)
      c = Conv(x, w2, b2)
      d = Relu(c)
      e = Concat <axis = 1> (b, d)
      f = Reshape(e, wide)
      g0 = Transpose <perm = [0, 2, 1, 3, 4]> (f)
      h = Reshape(g0, back)
      i, j = Split <axis = 1> (h, halves)
      k = Conv(j, w2)
      l = Relu(k)
      m = Pad(i, pads)
      n = Slice(m, from, to, axis)
      o = Add(n, l)
      p = GlobalAveragePool(o)
      q = Flatten(p)
      y = Gemm(q, w3)
    })";

TEST_F(Equalize, FollowsChannelsThatAreMoved) {
  Model model = with_weights(kMoves);
  Model even = equalized(model, {.per_channel = true});
  expect_same(model, even);
  for (const char* weight : {"w0", "w3"})
    EXPECT_FALSE(even.graph.initializer(weight)->equals(*model.graph.initializer(weight))) << weight;
  // w2 is shared by two layers, whose rows and columns are other channels'.
  EXPECT_EQ(std::ranges::count_if(even.graph.initializers, [](const auto& i) { return i.name.ends_with("_w2"); }), 1);
}

// As FastestDet has it: the channels' pairs become the batch, and are picked from it.
TEST_F(Equalize, FollowsChannelsThroughOtherAxes) {
  Model model = with_weights(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,3] y)
    <int64[3] pairs = {4, 2, 25}, int64[5] parts = {2, 1, 4, 5, 5}, int64 second = {1}> {
      a = Conv <pads = [1,1,1,1]> (x, w0, b0)
      b = Relu(a)
      c = Conv(x, w2, b2)
      d = Relu(c)
      e = Concat <axis = 1> (b, d)
      f = Reshape(e, pairs)
      g0 = Transpose <perm = [1, 0, 2]> (f)
      h = Reshape(g0, parts)
      i = Gather <axis = 0> (h, second)
      j = GlobalAveragePool(i)
      k = Flatten(j)
      y = Gemm(k, w3)
    })");
  Model even = equalized(model, {.per_channel = true});
  expect_same(model, even);
  EXPECT_FALSE(even.graph.initializer("w3")->equals(*model.graph.initializer("w3")));
}

TEST_F(Equalize, FlattensWhatHasMoreThanOnePlace) {
  Model model = with_weights(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,2] y) {
      a = Conv <pads = [1,1,1,1]> (x, w0, b0)
      b = Relu(a)
      c = Flatten(b)
      y = Gemm(c, w4)
    })");
  model.graph.initializers.push_back({"w4", float_tensor({100, 2}, values(100, 2, 7))});
  Model even = equalized(infer_shapes(model), {.per_channel = true});
  expect_same(model, even);
  const auto before = model.graph.initializer("w4")->values<float>(),
             after = even.graph.initializer("w4")->values<float>();
  for (size_t row = 0; row < 100; ++row)  // 25 places of each channel
    EXPECT_NEAR(after[2 * row] / before[2 * row], after[row / 25 * 50] / before[row / 25 * 50], 1e-4) << row;
  EXPECT_GT(std::abs(after[0] / before[0] - after[150] / before[150]), 0.1);
}

TEST_F(Equalize, LeavesChannelsThatAreMixed) {
  // Rows take the place of channels; a constant stands beside them; what is padded is not zero.
  for (const char* mixed :
       {"Transpose <perm = [0, 2, 1, 3]> (b)", "Concat <axis = 1> (b, other)", "Pad(b, pads, one)"}) {
    std::string text = R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[1,4,5,5] x) => (float y)
      <int64[8] pads = {0, 1, 0, 0, 0, 0, 0, 0}, float one = {1}> {
        a = Conv <pads = [1,1,1,1]> (x, w0, b0)
        b = Relu(a)
        c = MIXED
        y = Conv(c, w5)
      })";
    text.replace(text.find("MIXED"), 5, mixed);
    Model model = parse_model_text(text);
    model.graph.initializers.push_back({"w0", float_tensor({4, 4, 3, 3}, values(4, 36, 1))});
    model.graph.initializers.push_back({"b0", float_tensor({4}, values(4, 1, 2))});
    model.graph.initializers.push_back({"other", float_tensor({1, 1, 5, 5}, values(1, 25, 3))});
    model.graph.initializers.push_back({"w5", float_tensor({2, 5, 1, 1}, values(2, 5, 4))});
    name_nodes(model);
    model = infer_shapes(model);
    EXPECT_TRUE(equal(model, equalized(model, {}))) << mixed;
  }
}

TEST_F(Equalize, LeavesWhatHoldsInfinity) {
  Model model = bottleneck();
  for (Initializer& i : model.graph.initializers)
    if (i.name == "b2") i.tensor = float_tensor({4}, {0, std::numeric_limits<float>::infinity(), 0, 0});
  const Model even = equalized(model, {.per_channel = true});
  for (const Initializer& i : even.graph.initializers)
    if (i.name.find("w") != std::string::npos) {
      for (float v : i.tensor.values<float>()) ASSERT_TRUE(std::isfinite(v)) << i.name;
    }
  EXPECT_TRUE(even.graph.initializer("w3")->equals(*model.graph.initializer("w3")));  // reads the infinite channel
  EXPECT_FALSE(even.graph.initializer("w0")->equals(*model.graph.initializer("w0")));
}

TEST_F(Equalize, LeavesSumsOfOtherAxes) {
  // Four places beside four channels: it is the trailing axes that are added up.
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float y)
    <int64[3] rows = {1, 4, 4}, int64[4] image = {1, 4, 2, 2}> {
      a = Conv <pads = [0,0,0,0], strides = [2,2]> (x, w0, b0)
      b = Relu(a)
      c = Reshape(b, rows)
      p = GlobalAveragePool(b)
      q = Flatten(p)
      d = Gemm(q, w4)
      e = Add(c, d)
      f = Reshape(e, image)
      y = Conv(f, w5)
    })");
  model.graph.initializers.push_back({"w0", float_tensor({4, 4, 3, 3}, values(4, 36, 1))});
  model.graph.initializers.push_back({"b0", float_tensor({4}, values(4, 1, 2))});
  model.graph.initializers.push_back({"w4", float_tensor({4, 4}, values(4, 4, 3))});
  model.graph.initializers.push_back({"w5", float_tensor({2, 4, 1, 1}, values(2, 4, 4))});
  name_nodes(model);
  model = infer_shapes(model);
  expect_same(model, equalized(model, {.per_channel = true}));
}

TEST_F(Equalize, LeavesWhatIsPickedByValue) {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float y)
    <int64[1] one = {1}> {
      a = Conv <pads = [1,1,1,1]> (x, w0, b0)
      b = Relu(a)
      c = GlobalAveragePool(b)
      d = ArgMax <axis = 1> (c)
      e = Reshape(d, one)
      f = Gather <axis = 1> (b, e)
      y = Conv(f, w5)
    })");
  model.graph.initializers.push_back({"w0", float_tensor({4, 4, 3, 3}, values(4, 36, 1))});
  model.graph.initializers.push_back({"b0", float_tensor({4}, values(4, 1, 2))});
  model.graph.initializers.push_back({"w5", float_tensor({2, 1, 1, 1}, values(2, 1, 4))});
  name_nodes(model);
  model = infer_shapes(model);
  EXPECT_TRUE(equal(model, equalized(model, {})));
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
