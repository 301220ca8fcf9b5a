#include "seqto/one_in.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "metrics/loss/output_values.h"

namespace seqto {
namespace {

constexpr int64_t kWidth = 32;

// Three residual blocks behind a mask that is made of the input alone.
Model network() {
  std::string weights, body = "m = Sigmoid(x) s0 = MatMul(x, w0)";
  for (int i = 0; i < 7; ++i) {
    weights += (i ? ", float[32,32] w" : "float[32,32] w") + std::to_string(i) + " = {";
    for (int k = 0; k < kWidth * kWidth; ++k)
      weights += fmt::format("{}{}", k ? ", " : "", std::sin(k * (i + 3) * 0.7) * 0.5 + (k % 11 == 0 ? 0.9 : 0));
    weights += "}";
  }
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    body += " a" + n + " = MatMul(s" + n + ", w" + std::to_string(2 * i + 1) + ") r" + n + " = Relu(a" + n + ") p" + n +
            " = Mul(r" + n + ", m) b" + n + " = MatMul(p" + n + ", w" + std::to_string(2 * i + 2) + ") s" + next +
            " = Add(s" + n + ", b" + n + ")";
  }
  Model model = parse_model_text("<ir_version: 8, opset_import: [\"\" : 17]> m (float[1,32] x) => (float[1,32] s3) <" +
                                 weights + "> {" + body + "}");
  name_nodes(model);
  return infer_shapes(model);
}

class Waves : public Dataset {
 public:
  int64_t size() const override { return 6; }
  Sample read(int64_t i) const override {
    std::vector<float> values(kWidth);
    for (size_t k = 0; k < values.size(); ++k)
      values[k] = 2 * std::cos(static_cast<float>(k) * 1.3f + static_cast<float>(i));
    return {.inputs = {float_tensor({1, kWidth}, std::move(values))}};
  }
  bool has_labels() const override { return false; }
  std::string fingerprint() const override { return "waves"; }
};

struct OneInTest : testing::Test {
  Model model = network();
  Waves data;
  std::vector<int64_t> samples{0, 2, 3, 5};
  std::unique_ptr<Runner> runner = make_runner("cpu");
  SampleRun on{data, samples, *runner};
  OneInOptions options{.schemes = {Scheme::kInt8Weights, Scheme::kInt8Dynamic}, .metrics = {.task = "classify"}};

  Outputs outputs(const Model& of) {
    Outputs found;
    const auto session = runner->load(of);
    for (const int64_t i : samples) internal::append_outputs(found, session->run(data.read(i).inputs), "[test]");
    return found;
  }
};

TEST_F(OneInTest, GivesTheLossesAndBytesOfCandidatesThatAreMadeAsAWhole) {
  const OneIn result = one_in(model, {}, options, on);
  EXPECT_EQ(result.blocks, 4u);
  EXPECT_EQ(result.groups.size(), 7u);
  EXPECT_EQ(result.entries.size(), 14u);
  EXPECT_EQ(result.loss, "kl");
  const Outputs wanted = outputs(model);
  for (const OneIn::Entry& entry : result.entries) {
    ASSERT_EQ(entry.failure, "");
    const Model whole = Quantizer(model, {}, options.quantize).quantize(entry.plan);
    const Losses losses = compare(wanted, outputs(whole));
    EXPECT_GT(losses.kl, 0);
    EXPECT_NEAR(result.loss_of(entry), losses.kl, 1e-2 * losses.kl + 1e-8);
    EXPECT_NEAR(entry.losses.mse, losses.mse, 1e-2 * losses.mse + 1e-8);
    const int64_t bytes = serialized_size(model) - serialized_size(whole);
    EXPECT_NEAR(static_cast<double>(entry.bytes_saved), static_cast<double>(bytes), 0.02 * static_cast<double>(bytes));
    EXPECT_LE(entry.interval.low, losses.kl);
    EXPECT_GE(entry.interval.high, losses.kl);
  }
  EXPECT_EQ(result.read_bytes, 7 * kWidth * kWidth * 4) << "each weight once";
}

// One block or many: the same table.
TEST_F(OneInTest, BlocksDoNotChangeTheTable) {
  const OneIn many = one_in(model, {}, options, on);
  Model grown = model;  // a constant that makes all others small: one block
  grown.graph.initializers.push_back({"unread", float_tensor({1 << 19}, std::vector<float>(1 << 19))});
  const OneIn one = one_in(grown, {}, options, on);
  EXPECT_EQ(one.blocks, 1u);
  ASSERT_EQ(one.entries.size(), many.entries.size());
  for (size_t i = 0; i < one.entries.size(); ++i)
    EXPECT_NEAR(one.entries[i].losses.kl, many.entries[i].losses.kl, 1e-2 * one.entries[i].losses.kl + 1e-8);
}

TEST_F(OneInTest, APlanHasTheLeastSummedLossInItsBytes) {
  const OneIn result = one_in(model, {}, options, on);
  std::map<size_t, std::vector<const OneIn::Entry*>> groups;
  for (const OneIn::Entry& entry : result.entries) groups[entry.group].push_back(&entry);
  const int64_t wanted = 12000;  // bytes to save
  double best = HUGE_VAL;
  for (int choice = 0; choice < 2187; ++choice) {
    double loss = 0;
    int64_t saved = 0;
    int rest = choice;
    for (const auto& [group, entries] : groups) {
      if (rest % 3) loss += result.loss_of(*entries.at(static_cast<size_t>(rest % 3 - 1)));
      if (rest % 3) saved += entries[static_cast<size_t>(rest % 3 - 1)]->bytes_saved;
      rest /= 3;
    }
    if (saved >= wanted) best = std::min(best, loss);
  }
  const auto plan = plan_within(result, result.model_bytes - wanted);
  ASSERT_TRUE(plan);
  double loss = 0;
  int64_t saved = 0;
  for (const OneIn::Entry& entry : result.entries)
    if (const auto& [layer, scheme] = *entry.plan.schemes.begin();
        plan->schemes.contains(layer) && plan->schemes.at(layer) == scheme)
      loss += result.loss_of(entry), saved += entry.bytes_saved;
  EXPECT_GE(saved, wanted);
  EXPECT_NEAR(loss, best, 0.02 * best);
  EXPECT_FALSE(plan_within(result, 10));
}

TEST_F(OneInTest, WholeNumbersAreComparedAsTheyAre) {
  Node pick{.name = "pick", .op_type = "ArgMax", .inputs = {"s3"}, .outputs = {"label"}};
  pick.set_attribute({"axis", int64_t{1}});
  model.graph.nodes.push_back(pick);
  model.graph.outputs = {{.name = "label", .type = DataType::kInt64}};
  model = infer_shapes(model);
  const OneIn result = one_in(model, {}, options, on);
  EXPECT_EQ(result.task, "labels");
  EXPECT_EQ(result.entries.size(), 14u);
  const Outputs wanted = outputs(model);
  for (const OneIn::Entry& entry : result.entries) {
    const Model whole = Quantizer(model, {}, options.quantize).quantize(entry.plan);
    EXPECT_EQ(entry.losses.top1_disagreement, compare(wanted, outputs(whole)).top1_disagreement);
  }
}

TEST_F(OneInTest, AGroupThatFailsSaysWhy) {
  options.schemes = {Scheme::kInt8};  // without ranges
  const OneIn result = one_in(model, {}, options, on);
  ASSERT_FALSE(result.entries.empty());
  EXPECT_NE(result.entries[0].failure, "");
  EXPECT_NE(one_in_to_json(result).find("\"failure\""), std::string::npos);
}

TEST_F(OneInTest, AModelWithoutWeightsIsRefused) {
  const Model bare = infer_shapes(parse_model_text(
      "<ir_version: 8, opset_import: [\"\" : 17]> m (float[1,32] x) => (float[1,32] y) { y = Relu(x) }"));
  options.schemes = {Scheme::kInt4Weights};
  EXPECT_THROW(one_in(bare, {}, options, on), Error);
}

}  // namespace
}  // namespace seqto
