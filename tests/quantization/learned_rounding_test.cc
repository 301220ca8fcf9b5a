#include "seqto/improve.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace seqto
