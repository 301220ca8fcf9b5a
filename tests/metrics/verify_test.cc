// Whether a runtime whose optimizer has a fault is found out, and at which node.
#include "seqto/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace seqto {
namespace {

// The CPU with an optimizer that takes a Relu, under which nothing is cut off it thinks, for an Identity.
class FaultyOptimizer : public Runner {
 public:
  std::unique_ptr<Session> load(const Model& model, const SessionOptions& options) override {
    ++loads;
    if (options.optimization == SessionOptions::Optimization::kNone) return cpu_->load(model, options);
    Model changed = model;
    for (Node& node : changed.graph.nodes)
      if (node.name == faulty) node.op_type = "Identity";
    return cpu_->load(changed, options);
  }
  std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& options) override {
    return load(load_model(path), options);
  }
  Model optimized(const Model& model) override { return cpu_->optimized(model); }
  std::string description() const override { return "faulty"; }

  std::string faulty;
  int loads = 0;

 private:
  std::unique_ptr<Runner> cpu_ = make_runner("cpu");
};

class Rows : public Dataset {
 public:
  int64_t size() const override { return 2; }
  bool has_labels() const override { return false; }
  std::string fingerprint() const override { return "rows"; }
  Sample read(int64_t index) const override {
    Sample sample;
    sample.name = std::to_string(index);
    sample.inputs.push_back(
        float_tensor({1, 4}, index == 0 ? std::vector<float>{1, 2, 3, 4} : std::vector<float>{-9, 2, -9, 4}));
    return sample;
  }
};

Model chain() {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,8] y, int64[1,1] top)
    <float one = {1}, float five = {5}> {
      a = Add(x, one)
      b = Relu(a)
      c = Sub(b, five)
      d = Relu(c)
      y = Concat <axis = 1> (b, d)
      top = ArgMax <axis = 1> (d)
    })");
  name_nodes(model);
  for (Node& node : model.graph.nodes) node.name = node.outputs[0];
  return model;
}

// Two values that a Relu makes equal lie closer than any rounding: which of them comes first picks 1 or 9.
Model choice() {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,3] y)
    <float[4] m = {0, 0, 1, 1}, float[4] n = {-2e-6, -1e-6, 20, 20}, int64[1] k = {3}, float[4] of = {1, 9, 2, 3}> {
      a = Mul(x, m)
      b = Add(a, n)
      c = Relu(b)
      values, places = TopK(c, k)
      y = Gather(of, places)
    })");
  name_nodes(model);
  for (Node& node : model.graph.nodes) node.name = node.outputs[0];
  return model;
}

std::optional<OptimizationFault> verified(FaultyOptimizer& runner, const Model& model = chain()) {
  const std::vector<int64_t> samples{0, 1};
  return find_optimization_fault(model, {Rows(), samples, runner});
}

TEST(Verify, NamesTheNodeWhereItBegins) {
  for (const char* node : {"b", "d"}) {
    FaultyOptimizer runner;
    runner.faulty = node;
    const auto fault = verified(runner);
    ASSERT_TRUE(fault) << node;
    EXPECT_EQ(fault->node, node);
    EXPECT_EQ(fault->op_type, "Relu");
    EXPECT_EQ(fault->sample, "1") << "where more is below 0";
    EXPECT_GT(fault->error, kBeyondRounding);
    EXPECT_NE(to_text(*fault).find("Relu"), std::string::npos);
  }
}

TEST(Verify, RoundingMayChooseOtherwise) {
  FaultyOptimizer runner;
  runner.faulty = "c";
  const auto input = Rows().read(0).inputs;
  const Model model = choice();
  const auto wanted = make_runner("cpu")->load(model)->run(input), found = runner.load(model, {})->run(input);
  ASSERT_NE(element(wanted[0], 2), element(found[0], 2));
  EXPECT_FALSE(verified(runner, model));
}

TEST(Verify, OneThatIsRightCostsTwoLoads) {
  FaultyOptimizer runner;
  EXPECT_FALSE(verified(runner));
  EXPECT_EQ(runner.loads, 2);
}

}  // namespace
}  // namespace seqto
