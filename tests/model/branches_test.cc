#include "model/branches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "model/bodies.h"

namespace seqto::internal {
namespace {

// With a cache the past is added; `w` lies beside the If, each branch names its own constant `c`.
Model merged() {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (bool cached, float[1,16] x, float[1,16] past_key_values) => (float[1,16] y)
    {
      y = If (cached) <
        then_branch = with_past () => (float[1,16] y) { a = MatMul (x, w)  y = Add (a, past_key_values) },
        else_branch = no_past () => (float[1,16] y) { y = MatMul (x, w) }
      >
    })");
  std::vector<float> values(256);
  std::iota(values.begin(), values.end(), 0.0f);
  model.graph.initializers.push_back({"w", float_tensor({16, 16}, values)});
  return model;
}

std::vector<std::string> names(std::span<const ValueInfo> values) {
  std::vector<std::string> result;
  for (const ValueInfo& v : values) result.push_back(v.name);
  return result;
}

TEST(Branches, AreModelsWithWhatTheyRead) {
  const auto branches = branches_of(merged());
  ASSERT_TRUE(branches);
  EXPECT_EQ(branches->condition, "cached");
  EXPECT_EQ(names(branches->then_branch.graph.inputs), (std::vector<std::string>{"x", "past_key_values"}));
  EXPECT_EQ(names(branches->else_branch.graph.inputs), (std::vector<std::string>{"x"}));
  EXPECT_TRUE(branches->then_branch.graph.initializer("w"));
  EXPECT_TRUE(reads_a_past(branches->then_branch));
  EXPECT_FALSE(reads_a_past(branches->else_branch));
  check_model(branches->then_branch);
  check_model(branches->else_branch);
}

TEST(Branches, GoBackWithEachWeightOnce) {
  const Model model = merged();
  Branches branches = *branches_of(model);
  // A weight of the same name and other values, and one of the same values under another name.
  std::vector<float> others(256, 2.0f);
  branches.else_branch.graph.initializers.front().tensor = float_tensor({16, 16}, others);
  branches.else_branch.graph.initializers.push_back({"v", model.graph.initializers.front().tensor});
  branches.else_branch.graph.nodes.front().inputs[1] = "v";
  branches.else_branch.graph.nodes.push_back(
      {.name = "n", .op_type = "MatMul", .inputs = {"x", "w"}, .outputs = {"z"}});
  const Model back = with_branches(model, branches);
  check_model(back);
  EXPECT_EQ(back.graph.initializers.size(), 2u);
  EXPECT_EQ(names(back.graph.inputs), names(model.graph.inputs));
  const auto again = branches_of(parse_model(serialize(back)));
  ASSERT_TRUE(again);
  const Graph& graph = again->else_branch.graph;
  EXPECT_TRUE(graph.initializer(graph.nodes[0].inputs[1])->equals(model.graph.initializers.front().tensor));
  EXPECT_TRUE(graph.initializer(graph.nodes[1].inputs[1])->equals(float_tensor({16, 16}, others)));
  const Graph& then_graph = again->then_branch.graph;
  EXPECT_EQ(then_graph.nodes[0].inputs[1], graph.nodes[0].inputs[1]);
}

TEST(Branches, OfSomethingElseAreNone) {
  EXPECT_FALSE(branches_of(parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) })")));
  Model renamed = merged();
  renamed.graph.nodes.front().outputs = {"other"};
  renamed.graph.outputs.front().name = "other";
  EXPECT_FALSE(branches_of(renamed));
}

}  // namespace
}  // namespace seqto::internal
