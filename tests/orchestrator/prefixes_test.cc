#include <gtest/gtest.h>

#include "orchestrator/one_pass/cuts.h"
#include "orchestrator/tune/prefixes.h"

namespace seqto {
namespace {

using namespace internal;

Model parsed(const std::string& body,
             const std::string& weights = "float[4,4] w = {1,0,0,0, 0,2,0,0, 0,0,3,0, 0,0,0,4}") {
  return infer_shapes(
      parse_model_text("<ir_version: 8, opset_import: [\"\" : 17]> m (float[1,4] x) => (float[1,4] y) <" + weights +
                       "> {" + body + "}"));
}

TEST(CutTensors, AreWhereAllPassesThroughOneTensor) {
  const Model model = parsed("a = MatMul(x, w) b = Relu(a) c = Sigmoid(a) d = Add(b, c) e = MatMul(d, w) y = Relu(e)");
  EXPECT_EQ(cut_tensors(model), (std::vector<std::string>{"a", "d", "e"}));
}

// As masks and rotations of positions: they are computed anew behind a cut.
TEST(CutTensors, WhatInputsAloneMakeMayBeReadBehindThem) {
  const Model model =
      parsed("m = Sigmoid(x) a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) d = Mul(c, m) y = MatMul(d, w)");
  EXPECT_EQ(cut_tensors(model), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(inputs_behind(model, "c"), std::vector<std::string>{"x"});
  EXPECT_TRUE(inputs_behind(model, "d").empty());
}

TEST(CutTensors, WhatWeightsMadeIsNotReadBehindThem) {
  EXPECT_EQ(cut_tensors(parsed("a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) y = Add(c, a)")),
            std::vector<std::string>{"a"});
}

// A head that reads the embedding through a Transpose at the graph's beginning.
TEST(CutTensors, TurnedConstantsAreConstants) {
  EXPECT_EQ(cut_tensors(parsed("t = Transpose(w) a = MatMul(x, w) b = Relu(a) y = MatMul(b, t)")),
            (std::vector<std::string>{"a", "b"}));
}

// What is behind the cut at d does not give s; what a decoder remembers is not asked for there.
TEST(CutTensors, AreBeforeTheFirstAnswer) {
  const auto cuts = [](const std::string& state) {
    return cut_tensors(infer_shapes(
        parse_model_text("<ir_version: 8, opset_import: [\"\" : 17]> m (float[1,4] x) => (float[1,4] " + state +
                         ", float[1,4] y) "
                         "<float[4,4] w = {1,0,0,0, 0,2,0,0, 0,0,3,0, 0,0,0,4}> "
                         "{ a = MatMul(x, w) " +
                         state + " = Sigmoid(a) b = Tanh(a) d = Add(b, " + state + ") y = Relu(d) }")));
  };
  EXPECT_EQ(cuts("s"), std::vector<std::string>{"a"});
  EXPECT_EQ(cuts("present_0_key"), (std::vector<std::string>{"a", "d"}));
}

TEST(Blocks, GiveWhatTheWholeGives) {
  Model model = parsed("m = Sigmoid(x) a = MatMul(x, w) b = Mul(a, m) c = MatMul(b, w) d = Add(c, m) y = MatMul(d, w)");
  const std::vector<Block> parts = blocks(model, 1);
  ASSERT_EQ(parts.size(), 5u);
  const auto runner = make_runner("cpu");
  const Tensor x = float_tensor({1, 4}, {1, -1, 0.5f, 2});
  std::vector<Tensor> values;
  for (const Block& part : parts) {
    check_model(part.model);
    for (size_t i : part.inputs) {
      EXPECT_EQ(i, 0u);
      values.push_back(x);
    }
    values = runner->load(part.model)->run(values);
  }
  EXPECT_TRUE(values[0].equals(runner->load(model)->run(std::vector{x})[0]));
  EXPECT_EQ(blocks(model, 1 << 20).size(), 1u);
}

TEST(Behind, KeepsWhatTheOutputsNeed) {
  const Model model = parsed("a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) y = Relu(c)");
  ValueInfo b;
  for (const ValueInfo& v : model.graph.value_info)
    if (v.name == "b") b = v;
  ASSERT_EQ(b.name, "b");
  const Model rest = behind(model, b, {});
  ASSERT_EQ(rest.graph.nodes.size(), 2u);
  EXPECT_EQ(rest.graph.nodes[0].op_type, "MatMul");
  EXPECT_EQ(rest.graph.inputs.size(), 1u);
  EXPECT_EQ(rest.graph.initializers.size(), 1u);
  check_model(rest);
}

class OneSample : public Dataset {
 public:
  int64_t size() const override { return 3; }
  Sample read(int64_t i) const override {
    const auto v = static_cast<float>(i);
    return {.inputs = {Tensor::from<float>(DataType::kFloat, {1, 4}, {v, -1, 2, v})}};
  }
  bool has_labels() const override { return false; }
  std::string fingerprint() const override { return "x"; }
};

TEST(Prefixes, ASuffixGivesTheOutputsOfTheWhole) {
  Model model = parsed("a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) d = Relu(c) e = MatMul(d, w) y = Relu(e)");
  name_nodes(model);
  const auto runner = make_runner("cpu");
  const OneSample data;
  const std::vector<int64_t> samples{0, 2};
  const Prefixes prefixes(model, data, samples, *runner, 1 << 20);
  EXPECT_GE(prefixes.cuts(), 2u);

  // The third MatMul in int8 weights, as far as the prefix is concerned.
  const LayerId last = model.graph.nodes[4].name, first = model.graph.nodes[0].name;
  const auto suffix = prefixes.suffix({.schemes = {{last, Scheme::kInt8Weights}}}, model);
  ASSERT_TRUE(suffix);
  EXPECT_LT(suffix->model.graph.nodes.size(), model.graph.nodes.size());
  const auto whole = runner->load(model), part = runner->load(suffix->model);
  for (int64_t sample : samples) {
    const auto expected = whole->run(data.read(sample).inputs), found = part->run(suffix->data->read(sample).inputs);
    const auto a = expected[0].values<float>(), b = found[0].values<float>();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
  EXPECT_FALSE(prefixes.suffix({.schemes = {{first, Scheme::kInt8Weights}, {last, Scheme::kInt8Weights}}}, model));
  EXPECT_FALSE(prefixes.suffix({.schemes = {{"no such layer", Scheme::kInt8}}}, model));
}

}  // namespace
}  // namespace seqto
