#include <gtest/gtest.h>

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

TEST(CutTensors, AnInputThatIsReadLaterKeepsTheGraphWhole) {
  EXPECT_EQ(cut_tensors(parsed("a = MatMul(x, w) b = Relu(a) y = Add(b, x)")), (std::vector<std::string>{}));
}

// As the states of a decoder's blocks: what is behind the cut at d does not give s.
TEST(CutTensors, AreBeforeTheFirstOutput) {
  Model model = parse_model_text(
      "<ir_version: 8, opset_import: [\"\" : 17]> m (float[1,4] x) => (float[1,4] s, float[1,4] y) "
      "{ a = Relu(x) s = Sigmoid(a) b = Tanh(a) d = Add(b, s) y = Relu(d) }");
  EXPECT_EQ(cut_tensors(infer_shapes(model)), (std::vector<std::string>{"a"}));
}

TEST(Behind, KeepsWhatTheOutputsNeed) {
  const Model model = parsed("a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) y = Relu(c)");
  ValueInfo b;
  for (const ValueInfo& v : model.graph.value_info)
    if (v.name == "b") b = v;
  ASSERT_EQ(b.name, "b");
  const Model rest = behind(model, b);
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
