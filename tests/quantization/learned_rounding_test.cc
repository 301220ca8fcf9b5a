#include "seqto/improve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "seqto/calibrate.h"
#include "seqto/quantize.h"
#include "testing/rewrites.h"

namespace seqto {
namespace {

using namespace testing_rewrites;

using LearnedRounding = RewriteTest;

constexpr const char* kNetwork = R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[1,4,5,5] x) => (float[1,4,5,5] y) {
  h = Conv <pads = [1,1,1,1]> (x, w0, b0)
  r = Relu (h)
  d = Conv <pads = [1,1,1,1], group = 4> (r, w1)
  y = Conv (d, w2, b2)
})";

TEST_F(LearnedRounding, EndsBetweenLayersWhereItIsEnough) {
  const Model model = with_weights(kNetwork);
  Quantizer quantizer(model, calibrate(model, {data(model), samples_, *runner_}), {});
  const Plan plan = uniform_plan(model, Scheme::kInt8);
  const Rounding whole = learn_rounding({quantizer, plan}, {data(model), samples_, *runner_});
  ASSERT_EQ(whole.size(), 3u);
  const auto learned = [&](int steps) {
    int asked = 0;
    return learn_rounding({quantizer, plan}, {data(model), samples_, *runner_},
                          {.enough = [&asked, steps] { return asked++ == steps; }});
  };
  EXPECT_TRUE(learned(0).empty());
  const Rounding first = learned(1);
  ASSERT_EQ(first.size(), 1u);
  const auto& [layer, rounded] = *first.begin();
  EXPECT_EQ(layer, model.graph.nodes[0].name);
  EXPECT_TRUE(rounded.codes.equals(whole.at(layer).codes)) << "what comes later does not reach it";
  EXPECT_EQ(learned(2).size(), 2u);
  EXPECT_EQ(learned(3).size(), 3u) << "not asked behind the last one";
}

// One encoding: its operators on codes are written in pairs, so that there are inputs in float to learn from.
TEST_F(LearnedRounding, LooksAtOperatorsOnCodesInPairs) {
  const Model model = with_weights(kNetwork);
  const Ranges ranges = calibrate(model, {data(model), samples_, *runner_});
  const Plan plan = uniform_plan(model, Scheme::kInt8);
  for (const bool per_channel : {false, true}) {
    const auto learned = [&](QuantFormat format) {
      Quantizer quantizer(model, ranges, {.format = format, .per_channel = per_channel});
      return learn_rounding({quantizer, plan}, {data(model), samples_, *runner_});
    };
    const Rounding operators = learned(QuantFormat::kQoperator), pairs = learned(QuantFormat::kQdq);
    ASSERT_EQ(operators.size(), 3u);
    for (const auto& [layer, rounded] : pairs) EXPECT_TRUE(rounded.codes.equals(operators.at(layer).codes)) << layer;

    Quantizer quantizer(model, ranges, {.format = QuantFormat::kQoperator, .per_channel = per_channel});
    const Model written = quantizer.quantize(plan), seen = Remade{quantizer, plan}.with({});
    EXPECT_EQ(std::ranges::count(written.graph.nodes, "QLinearConv", &Node::op_type), 3);
    for (const Node& n : model.graph.nodes)
      if (n.op_type == "Conv") {
        EXPECT_EQ(std::ranges::count(seen.graph.nodes, n.name, &Node::name), 1) << n.name;
      }
    const auto first = [&](const Model& m) {
      return runner_->load(m, {SessionOptions::Optimization::kNone})->run(data(model).read(0).inputs)[0];
    };
    const Tensor expected = first(written), found = first(seen);
    float largest = 0;
    for (const float v : expected.values<float>()) largest = std::max(largest, std::abs(v));
    for (size_t i = 0; i < found.values<float>().size(); ++i)
      EXPECT_NEAR(found.values<float>()[i], expected.values<float>()[i], largest / 60) << "two codes at most";
  }
}

}  // namespace
}  // namespace seqto
