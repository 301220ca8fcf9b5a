#include "model/op_traits.h"

#include <gtest/gtest.h>

#include <limits>

#include "model/graph_view.h"

namespace seqto::internal {
namespace {

using Bounds = std::pair<double, double>;

Node layer(std::string op_type, std::vector<std::string> inputs, std::vector<Attribute> attributes = {}) {
  return {"n", std::move(op_type), "", std::move(inputs), {"y"}, std::move(attributes), {}};
}

TEST(OpTraits, BiasesAreFoundWhereTheyAreGiven) {
  EXPECT_EQ(bias_input(layer("Conv", {"x", "w", "b"})), size_t{2});
  EXPECT_EQ(bias_input(layer("Gemm", {"x", "w", ""})), std::nullopt);
  EXPECT_EQ(bias_input(layer("ConvTranspose", {"x", "w"})), std::nullopt);
  EXPECT_EQ(bias_input(layer("MatMul", {"x", "w", "b"})), std::nullopt);
}

TEST(OpTraits, OutputsOfCodesHaveTheScaleThatTheirOperatorSays) {
  EXPECT_EQ(output_scale(layer("QuantizeLinear", {"x", "s"})), size_t{1});
  EXPECT_EQ(output_scale(layer("QLinearConv", {"x", "xs", "xz", "w", "ws", "wz", "ys", "yz"})), size_t{6});
  EXPECT_EQ(output_scale(layer("QLinearSigmoid", {"x", "xs", "xz", "ys"})), size_t{3}) << "the zero point is optional";
  EXPECT_EQ(output_scale(layer("QGemm", {"a", "as", "az", "b", "bs", "bz"})), std::nullopt) << "it gives floats";
  EXPECT_EQ(output_scale(layer("Conv", {"x", "w", "b"})), std::nullopt);
}

TEST(OpTraits, AxesOfWeights) {
  const Node conv = layer("Conv", {"x", "w"}), up = layer("ConvTranspose", {"x", "w"});
  EXPECT_EQ(output_axis(conv, 4), size_t{0});
  EXPECT_EQ(summed_axis(conv, 4), size_t{1});
  EXPECT_EQ(output_axis(up, 4), size_t{1});
  EXPECT_EQ(output_axis(layer("Gemm", {"x", "w"}, {{"transB", int64_t{1}}}), 2), size_t{0});
  EXPECT_EQ(output_axis(layer("MatMul", {"x", "w"}), 3), size_t{2});
  EXPECT_EQ(summed_axis(layer("MatMul", {"x", "w"}), 3), size_t{1});
  EXPECT_EQ(output_axis(layer("Relu", {"x"}), 4), std::nullopt);
  EXPECT_EQ(biased_axis(up, 4), size_t{1});
  EXPECT_EQ(biased_axis(layer("ConvTranspose", {"x", "w"}, {{"group", int64_t{2}}}), 4), std::nullopt);
  EXPECT_EQ(biased_axis(layer("MatMul", {"x", "w"}), 2), std::nullopt) << "it takes no bias";
}

TEST(OpTraits, FactorsOfAGemm) {
  EXPECT_FALSE(has_factors(layer("Gemm", {"x", "w"})));
  EXPECT_TRUE(has_factors(layer("Gemm", {"x", "w"}, {{"alpha", 0.5f}})));
  EXPECT_TRUE(has_factors(layer("Gemm", {"x", "w", "c"}, {{"beta", 2.0f}})));
}

TEST(OpTraits, BoundsOfClipsAreKnownWhereTheyAreConstant) {
  const Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 13]>
    g (float[1,4] x, float high) => (float[1,4] a, float[1,4] b, float[1,4] c)
    <float low = {0}, float six = {6}> {
      a = Clip (x, low, six)
      b = Clip (x, low, high)
      c = Clip (x)
    })");
  const GraphView view(model);
  const auto bounds = [&](size_t node) { return clip_bounds(model.graph.nodes[node], view); };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(bounds(0), Bounds(0, 6));
  EXPECT_EQ(bounds(1), std::nullopt) << "one of them is computed";
  EXPECT_EQ(bounds(2), Bounds(-kInfinity, kInfinity));
}

TEST(GraphView, WhatBodiesAndCallersReadHasNoOnlyReader) {
  const Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 13]>
    g (float[1,4] x) => (float[1,4] y, float[1,4] b) {
      a = Relu (x)
      b = Relu (a)
      c = Relu (b)
      y = Add (c, c)
    })");
  const Edges edges(model.graph);
  EXPECT_EQ(edges.only_reader("a"), &model.graph.nodes[1]);
  EXPECT_EQ(edges.only_reader("b"), nullptr) << "the graph's caller reads it as well";
  EXPECT_EQ(edges.only_reader("c"), nullptr) << "twice at one node";
  EXPECT_EQ(edges.uses("b"), 2u);
  EXPECT_EQ(edges.readers("c").size(), 2u);
  EXPECT_EQ(edges.producer("x"), nullptr);
  EXPECT_EQ(edges.place(*edges.producer("y")), 3u);
}

}  // namespace
}  // namespace seqto::internal
