#include "quantization/read/twins.h"

#include <gtest/gtest.h>

#include "seqto/improve.h"

namespace seqto::internal {
namespace {

Model named(const char* text) {
  Model model = infer_shapes(parse_model_text(text));
  name_nodes(model);
  return model;
}

// Nodes are called after their outputs.
Model with_names(Model model) {
  for (Node& node : model.graph.nodes) node.name = node.outputs[0];
  return model;
}

Model decoder() {
  return with_names(named(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2] x) => (float[1,2] y)
      <float[2,2] a = {1, 2, 3, 4}, float[2,2] b = {5, 6, 7, 8}, float[2] one = {1, 1}, float[2,2] c = {9, 8, 7, 6}>
    { q = MatMul (x, a)  r = Relu (q)  n = Mul (r, one)  k = MatMul (n, b)  y = MatMul (k, c) })"));
}

// Without `b`; weights and nodes have other names.
Model step() {
  return with_names(named(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2] x, float[1,2] past) => (float[1,2] z)
      <float[2,2] w1 = {9, 8, 7, 6}, float[2,2] w0 = {1, 2, 3, 4}, float[2] ones = {1, 1}>
    { p = MatMul (x, w0)  s = Relu (p)  m = Mul (s, ones)  t = Add (m, past)  z = MatMul (t, w1) })"));
}

TEST(Twins, AreFoundByValues) {
  const Twins found = twins(step(), decoder());
  EXPECT_EQ(found.weights.at("w0"), "a");
  EXPECT_EQ(found.weights.at("w1"), "c");
  EXPECT_EQ(found.layers.at("p"), "q");
  EXPECT_EQ(found.layers.at("z"), "y");
  EXPECT_TRUE(found.strangers.empty());
  EXPECT_EQ(twins(decoder(), step()).strangers, std::vector<LayerId>{"k"});
}

TEST(Twins, OfOneNameGoBeforeTheOrder) {
  const auto text = [](const char* first, const char* second) {
    return with_names(
        named((std::string("<ir_version: 8, opset_import: [\"\" : 17]> g (float[1,2] x) => (float[1,2] y) "
                           "<float[2,2] ") +
               first + " = {1, 1, 1, 1}, float[2,2] " + second + " = {1, 1, 1, 1}> { h = MatMul (x, " + first +
               ") y = MatMul (h, " + second + ") }")
                  .c_str()));
  };
  const Twins found = twins(text("b", "z"), text("a", "b"));
  EXPECT_EQ(found.weights.at("b"), "b");
  EXPECT_EQ(found.weights.at("z"), "a");
}

TEST(Twins, TakeThePlanOfTheirGroups) {
  Plan plan;
  plan.schemes = {{"q", Scheme::kInt8}, {"r", Scheme::kInt8}, {"y", Scheme::kInt4Weights}};
  plan.options["y"].block_size = 32;
  const Plan carried = carried_plan(plan, twins(step(), decoder()), step(), decoder());
  EXPECT_EQ(detailed_scheme(carried, "p").scheme, Scheme::kInt8);
  EXPECT_EQ(detailed_scheme(carried, "s").scheme, Scheme::kInt8);  // without weights, behind p
  EXPECT_EQ(detailed_scheme(carried, "z"), detailed_scheme(plan, "y"));
  EXPECT_FALSE(carried.schemes.contains("t"));  // no Add of the plan is static
}

TEST(Twins, TakeCodesAlong) {
  Corrections found;
  found.shifts["y"] = {1, 2};
  found.shifts["k"] = {3, 4};
  const Corrections carried = carried_corrections(found, twins(step(), decoder()));
  EXPECT_EQ(carried.shifts, (BiasShifts{{"z", {1, 2}}}));
}

TEST(Twins, AreRewrittenAlike) {
  const Model before = decoder();
  Model after = before;
  for (Initializer& i : after.graph.initializers)
    if (i.name == "c") i.tensor = float_tensor({2, 2}, {18, 16, 7, 6});
  // As smooth() divides in front of a layer.
  after.graph.initializers.push_back({"k_smooth_factors", float_tensor({2}, {0.5f, 1})});
  auto& nodes = after.graph.nodes;
  nodes.back().inputs[0] = "k_smooth";
  nodes.insert(nodes.end() - 1, Node{"k_smooth", "Mul", "", {"k", "k_smooth_factors"}, {"k_smooth"}, {}, {}});
  ASSERT_EQ(smoothing_layers(after).size(), 1u);
  const auto rewritten = carried_rewriting(step(), before, after, twins(step(), before));
  ASSERT_TRUE(rewritten);
  EXPECT_TRUE(rewritten->graph.initializer("w1")->equals(float_tensor({2, 2}, {18, 16, 7, 6})));
  const Node& last = rewritten->graph.nodes.back();
  ASSERT_EQ(smoothing_layers(*rewritten), std::vector<LayerId>{last.inputs[0]});
  EXPECT_EQ(rewritten->graph.nodes[rewritten->graph.nodes.size() - 2].inputs[0], "t");
  // Anything else that was added is not known here.
  nodes.push_back({.name = "odd", .op_type = "Relu", .inputs = {"q"}, .outputs = {"odd"}});
  EXPECT_FALSE(carried_rewriting(step(), before, after, twins(step(), before)));
}

}  // namespace
}  // namespace seqto::internal
