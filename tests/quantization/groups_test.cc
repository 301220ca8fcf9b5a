#include "seqto/plan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

using Groups = std::vector<std::vector<LayerId>>;

Model parsed(const std::string& graph) {
  Model model = parse_model_text("<ir_version: 8, opset_import: [\"\" : 17]> g " + graph);
  name_nodes(model);
  return infer_shapes(model);
}

TEST(Groups, ActivationsAndBiasesBelongToTheirLayerAveragesToNone) {
  Model model = parsed(R"((float[1,4,8,8] x) => (float[1,3] y)
    <float[4,4,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[4,3] v = {1,2,3,4,5,6,7,8,9,10,11,12},
     float[3] bias = {1,2,3}> {
      [conv] a = Conv(x, w)
      [sigmoid] s = HardSigmoid(a)
      [swish] b = Mul(a, s)
      [pool] p = GlobalAveragePool(b)
      [flat] f = Flatten(p)
      [matmul] m = MatMul(f, v)
      [add] y = Add(m, bias)
    })");
  EXPECT_EQ(groups(model), (Groups{{"conv", "sigmoid", "swish"}, {"pool", "flat"}, {"matmul", "add"}}));
}

TEST(Groups, AResidualAddGoesToTheLatestBranchAndJoinsNone) {
  Model model = parsed(R"((float[1,1,2,2] x) => (float[1,2,2,2] y)
    <float[1,1,1,1] u = {1}, float[1,1,1,1] v = {2}, float[1,1,1,1] w = {3}> {
      [a] a = Conv(x, u)
      [b] b = Conv(a, v)
      [add] c = Add(b, a)
      [relu] d = Relu(c)
      [e] e = Conv(d, w)
      [concat] y = Concat<axis = 1>(e, d)
    })");
  EXPECT_EQ(groups(model), (Groups{{"a"}, {"b", "add", "relu"}, {"e", "concat"}}));
}

TEST(Groups, SharedAndTiedWeightsAreOneDecision) {
  Model model = parsed(R"((int64[3] ids, float[3,2] x) => (float[3,4] y, float[3,2] z)
    <float[4,2] table = {1,2,3,4,5,6,7,8}, float[2,2] own = {1,2,3,4}> {
      [embed] e = Gather(table, ids)
      [own] h = MatMul(e, own)
      [tie] t = Transpose<perm = [1,0]>(table)
      [head] y = MatMul(h, t)
      [twin] g = Gather(table, ids)
      [last] z = Add(g, x)
    })");
  EXPECT_EQ(groups(model), (Groups{{"embed", "tie", "head", "twin", "last"}, {"own"}}));
}

TEST(Groups, WhatComesBeforeTheFirstWeightGoesToItsReader) {
  Model model = parsed(R"((float[1,2,2,1] x, float[1,2] side) => (float[1,1,2,2] y, float[1,2] z)
    <float[1,1,1,1] w = {1}> {
      [layout] t = Transpose<perm = [0,3,1,2]>(x)
      [conv] y = Conv(t, w)
      [alone] r = Relu(side)
      [after] z = Sigmoid(r)
    })");
  EXPECT_EQ(groups(model), (Groups{{"layout", "conv"}, {"alone", "after"}}));
}

TEST(Groups, ShapesCarryNoValues) {
  Model model = parsed(R"((float[1,4] x) => (float[2,2] y)
    <float[4,4] a = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[4,4] b = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16},
     int64[2] two = {2,2}> {
      [first] p = MatMul(x, a)
      [second] q = MatMul(p, b)
      [shape] s = Shape(q)
      [size] t = Div(two, s)
      [reshape] y = Reshape(p, two)
    })");
  EXPECT_EQ(groups(model), (Groups{{"first", "reshape"}, {"second"}}));
}

TEST(Groups, QueriesKeysAndValuesAndGateAndUpDecideTogether) {
  Model model = parsed(R"((float[1,2,2] x) => (float[1,2,2] y)
    <float[2,2] a = {1,2,3,4}, float[2,2] b = {1,2,3,4}, float[2,2] c = {1,2,3,4}, float[2,2] d = {1,2,3,4},
     float[2,2] e = {1,2,3,4}, float[2] bias = {1,2}, int64[3] whole = {1,2,2}> {
      [q] q = MatMul(x, a)
      [q_bias] p = Add(q, bias)
      [same] s = Reshape(x, whole)
      [k] k = MatMul(s, b)
      [turn] t = Transpose<perm = [0,2,1]>(k)
      [v] v = MatMul(x, c)
      [scores] m = MatMul(p, t)
      [shares] n = Softmax(m)
      [mixed] o = MatMul(n, v)
      [gate] g = MatMul(o, d)
      [open] h = Sigmoid(g)
      [up] u = MatMul(o, e)
      [gated] y = Mul(h, u)
    })");
  EXPECT_EQ(groups(model), (Groups{{"q", "q_bias", "same", "k", "v"},
                                   {"turn", "scores", "shares", "mixed"},
                                   {"gate", "open", "up", "gated"}}));
}

// The frequencies of a rotation: no layer leads to their product, which would join all attentions that read it.
TEST(Groups, AProductOfPositionsIsNoAttention) {
  Model model = parsed(R"((float[1,2,2] x, float[1,1,2] places, float[1,2,1] rates) => (float[1,2,2] y)
    <float[2,2] a = {1,2,3,4}, float[2,2] b = {1,2,3,4}> {
      [turns] r = MatMul(rates, places)
      [first] p = MatMul(x, a)
      [mul] q = Mul(p, r)
      [second] s = MatMul(q, b)
      [mul2] y = Mul(s, r)
    })");
  EXPECT_EQ(groups(model), (Groups{{"turns", "first", "mul"}, {"second", "mul2"}}));
}

const char* const kThree = R"((float[1,1,2,2] x) => (float[1,1,2,2] y)
    <float[1,1,1,1] u = {1}, float[1,1,1,1] v = {2}, float[1,1,1,1] w = {3}> {
      [a1] a = Conv(x, u)
      [r1] b = Relu(a)
      [a2] c = Conv(b, v)
      [r2] d = Relu(c)
      [a3] y = Conv(d, w)
    })";

TEST(Groups, TheUserHasTheLastWord) {
  Model model = parsed(kThree);
  EXPECT_EQ(groups(model, {{{"a1", "a3"}}}), (Groups{{"a1", "r1", "a3"}, {"a2", "r2"}}));
  EXPECT_EQ(groups(model, {{{"a*"}}}), (Groups{{"a1", "r1", "a2", "r2", "a3"}}));
  EXPECT_EQ(groups(model, {{{"r1", "a2"}}}), (Groups{{"a1"}, {"r1", "a2", "r2"}, {"a3"}}));
  EXPECT_EQ(groups(model, {{{"a1", "a2"}, {"a2", "a3"}}}), (Groups{{"a1", "r1", "a2", "r2", "a3"}}));
  EXPECT_EQ(groups(model, {{{"op:Relu"}}}), (Groups{{"a1"}, {"r1", "r2"}, {"a2"}, {"a3"}}));
  EXPECT_THROW(groups(model, {{{"b*"}}}), Error);
  // What is printed can be given back.
  EXPECT_EQ(groups(model, {groups(model, {{{"r1", "a3"}}})}), groups(model, {{{"r1", "a3"}}}));
}

TEST(Groups, FileOfGroups) {
  EXPECT_EQ(groups_from_json(R"({"groups": [["a", "b*"], ["c"]]})"), (Groups{{"a", "b*"}, {"c"}}));
  EXPECT_THROW(groups_from_json(R"({"groups": {"a": 1}})"), Error);
  EXPECT_THROW(groups_from_json("[]"), Error);
}

// Of any model: every quantizable layer in exactly one group, everything in graph order, one group for one weight.
void expect_partition(const Model& model) {
  std::map<LayerId, size_t> place;
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) place[model.graph.nodes[i].name] = i;
  std::map<LayerId, size_t> group_of;
  Groups found = groups(model);
  size_t first = 0;
  for (size_t g = 0; g < found.size(); ++g) {
    ASSERT_FALSE(found[g].empty());
    EXPECT_TRUE(g == 0 || place.at(found[g][0]) > first);
    first = place.at(found[g][0]);
    for (size_t k = 0; k < found[g].size(); ++k) {
      EXPECT_TRUE(group_of.emplace(found[g][k], g).second) << found[g][k] << " is in two groups";
      if (k > 0) {
        EXPECT_LT(place.at(found[g][k - 1]), place.at(found[g][k]));
      }
    }
  }
  std::map<std::string, std::set<size_t>> readers;
  std::vector<Layer> all = layers(model);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].quantizable) {
      EXPECT_TRUE(group_of.contains(all[i].id)) << all[i].id << " is in no group";
    }
    const Node& n = model.graph.nodes[i];
    bool weighted = n.op_type == "Conv" || n.op_type == "Gemm" || n.op_type == "MatMul";
    if (weighted && group_of.contains(n.name) && model.graph.initializer(n.inputs[1]))
      readers[n.inputs[1]].insert(group_of.at(n.name));
  }
  for (const auto& [weight, places] : readers) EXPECT_EQ(places.size(), 1u) << weight;
  EXPECT_EQ(groups(model), found);
}

TEST(Groups, PartitionOfRealModels) {
  namespace fs = std::filesystem;
  if (!fs::exists(SEQTO_CASES_DIR)) GTEST_SKIP() << "no cases in " << SEQTO_CASES_DIR;
  for (const auto& file : fs::recursive_directory_iterator(SEQTO_CASES_DIR)) {
    if (file.path().extension() != ".onnx") continue;
    SCOPED_TRACE(file.path().string());
    Model model = load_model(file.path());
    name_nodes(model);
    expect_partition(infer_shapes(model));
  }
}

}  // namespace
}  // namespace seqto
