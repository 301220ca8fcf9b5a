#include "quantization/encode/unlike_concats.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "seqto/quantize.h"

namespace seqto {
namespace {

using internal::unlike_concats;
using Names = std::unordered_set<std::string>;

// Boxes up to 320, scores below 1; `rest` reads their Concat c.
Model head(const std::string& rest) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[1,4,8] boxes, float[1,2,8] logits) => (float[1,6,8] y) {
  b = Relu (boxes)
  s = Sigmoid (logits)
  c = Concat <axis = 1> (b, s)
)" + rest + "}";
  Model model = parse_model_text(text);
  name_nodes(model);
  return infer_shapes(model);
}

Ranges ranges(float highest_score) {
  return {{"boxes", {-4, 320}}, {"logits", {-9, 3}}, {"b", {0, 320}}, {"s", {0, highest_score}},
          {"c", {0, 320}},      {"t", {0, 320}},     {"y", {0, 320}}};
}

Names found(const std::string& rest, float highest_score = 0.9f, int64_t levels = 255) {
  const Names quantizable{"Conv", "Concat", "Mul", "Transpose", "Slice"};
  return unlike_concats(head(rest), ranges(highest_score), levels,
                        [&](const Node& n) { return quantizable.contains(n.op_type); });
}

TEST(UnlikeConcats, AreThoseThatLeaveAnInputTooFewSteps) {
  EXPECT_EQ(found("  y = Identity (c)"), Names({"c", "y"}));
  EXPECT_EQ(found("  y = Identity (c)", 20.0f), Names({"c", "y"})) << "15.9 steps";
  EXPECT_EQ(found("  y = Identity (c)", 20.2f), Names()) << "16.1 steps";
  EXPECT_EQ(found("  y = Identity (c)", 0), Names()) << "zeros stay zeros";
  EXPECT_EQ(found("  y = Identity (c)", 0.9f, 65535), Names()) << "16 bits";
}

TEST(UnlikeConcats, GoOnThroughWhatMovesAllOfIt) {
  EXPECT_EQ(found("  t = Transpose <perm = [0, 2, 1]> (c)\n  y = Transpose <perm = [0, 2, 1]> (t)"),
            Names({"c", "t", "y"}));
  EXPECT_EQ(found("  y = Concat <axis = 2> (c, c)"), Names({"c", "y"})) << "levels of a detector";
}

TEST(UnlikeConcats, AreFoundInTimeThatGrowsWithTheModel) {
  Model model = head("  t = Identity (c)\n  y = Identity (t)");
  Node twice = model.graph.nodes[2];
  for (int i = 0; i < 64; ++i) {
    twice.name = twice.outputs[0] = fmt::format("t{}", i);
    twice.inputs.assign(2, i > 0 ? fmt::format("t{}", i - 1) : "t");
    model.graph.nodes.push_back(twice);
  }
  EXPECT_EQ(unlike_concats(model, ranges(0.9f), 255, [](const Node&) { return false; }).size(), 67u);
}

TEST(UnlikeConcats, StayWhereTheWholeIsComputedWith) {
  EXPECT_EQ(found("  y = Mul (c, c)"), Names());
  EXPECT_EQ(found("  t = Transpose <perm = [0, 2, 1]> (c)\n  y = Mul (t, t)"), Names());
  EXPECT_EQ(found("  y = Softmax (c)"), Names({"c"})) << "which is float here anyway";
  // What is taken out has a scale of its own.
  EXPECT_EQ(found(R"(  from = Constant <value_ints = [4]> ()
  to = Constant <value_ints = [6]> ()
  channels = Constant <value_ints = [1]> ()
  t = Slice (c, from, to, channels)
  y = Mul (t, t))"),
            Names({"c"}));
}

TEST(UnlikeConcats, AreLeftInFloatWhereThatIsAskedFor) {
  const Model model = head("  y = Transpose <perm = [0, 1, 2]> (c)");
  const Plan plan = uniform_plan(model, Scheme::kInt8);
  const auto rounded = [&](const QuantizeOptions& options, const char* tensor) {
    Quantizer quantizer(model, ranges(0.9f), options);
    const Model result = quantizer.quantize(plan);
    return std::ranges::any_of(result.graph.nodes, [&](const Node& n) {
      return n.op_type == "QuantizeLinear" && n.inputs[0].starts_with(tensor);
    });
  };
  const QuantizeOptions plain, asked{.float_unlike_concat = true},
      compat{.float_unlike_concat = true, .compat_onnxruntime = true};
  EXPECT_TRUE(rounded(plain, "c"));
  EXPECT_FALSE(rounded(asked, "c"));
  EXPECT_FALSE(rounded(asked, "y"));
  EXPECT_TRUE(rounded(asked, "logits")) << "what is computed in 8 bits still is";
  EXPECT_TRUE(rounded(compat, "c"));
}

}  // namespace
}  // namespace seqto
