// Rewritings of a model are the same function, or are left out.
#include "quantization/improve/same_answers.h"

#include <gtest/gtest.h>

#include <vector>

#include "model/pair.h"
#include "quantization/arithmetic/channels.h"
#include "seqto/improve.h"
#include "testing/rewrites.h"

namespace seqto {
namespace {

using namespace testing_rewrites;

using SameAnswers = RewriteTest;

Model bottleneck() {
  return with_weights(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,4,5,5] y) {
      a = Conv <pads = [1,1,1,1]> (x, w0, b0)
      b = Relu(a)
      c = Conv <group = 4, pads = [1,1,1,1]> (b, w1)
      d = Relu(c)
      y = Conv(d, w2, b2)
    })");
}

TEST_F(SameAnswers, LeavesWhatStandsBetweenAnEncoderAndItsDecoder) {
  const Model encoder = with_weights(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,4,5,5] hidden) {
      a = Conv <pads = [1,1,1,1]> (x, w0, b0)
      hidden = Relu(a)
    })");
  const Model decoder = with_weights(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] hidden) => (float[1,4,5,5] y) {
      y = Conv(hidden, w2, b2)
    })");
  const Model joined = internal::join({encoder, "encoder"}, {decoder, "decoder"}, {});
  const SampleRun on{data(joined), samples_, *runner_};
  QuantizeOptions options;
  const Model even = rewrite_for(joined, {.equalize = true}, options, Scheme::kInt8, on);
  EXPECT_EQ(even.graph.outputs.size(), joined.graph.outputs.size());
  const auto pair = internal::pair_of(even);
  ASSERT_TRUE(pair);
  expect_same(internal::take_apart(joined, *pair).first, internal::take_apart(even, *pair).first);
  const Model plain = equalize(joined, on, {});
  EXPECT_FALSE(equal(joined, plain)) << "it would have been rescaled";
}

// What a rewriting that is no longer the same function looks like, and what only looks like one.
TEST_F(SameAnswers, AnswersAreComparedWithTheModelAsItCame) {
  const Model model = bottleneck();
  const SampleRun on{data(model), samples_, *runner_};
  internal::SameAnswers same(model, on);
  const Model even = equalize(model, on, {});
  EXPECT_LT(*same.difference(even), 1e-8);
  Model other = model;
  for (Initializer& i : other.graph.initializers)
    if (i.name == "w2") i.tensor = internal::scaled(i.tensor, 0, std::vector<double>(3, 1.1), false);
  EXPECT_GT(*same.difference(other), internal::SameAnswers::kOther);
  Model drawing = model;
  drawing.graph.nodes.push_back({.name = "draw", .op_type = "RandomNormalLike", .inputs = {"x"}, .outputs = {"drawn"}});
  EXPECT_FALSE(internal::SameAnswers(drawing, on).difference(other)) << "whose answers are never the same";
}

}  // namespace
}  // namespace seqto
