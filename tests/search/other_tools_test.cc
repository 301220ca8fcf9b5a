// Strategies that give bits as other tools do: their rules on a few groups, worked out by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "seqto/search.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

constexpr Scheme kLow = Scheme::kInt4Weights, kHigh = Scheme::kInt8Weights;

// Groups of one layer each, in 4 or 8 bits or in float.
class OtherTools : public ::testing::Test {
 protected:
  OtherTools() : folder_(fs::temp_directory_path() / fmt::format("seqto_other_tools_{}", ::getpid())) {}
  ~OtherTools() override { fs::remove_all(folder_); }

  void add_group(const std::string& name, int64_t weights = 1000) {
    space_.groups.push_back({.layers = {name},
                             .choices = {{}, {.schemes = {{name, kHigh}}}, {.schemes = {{name, kLow}}}},
                             .schemes = {Scheme::kFloat32, kHigh, kLow}});
    weights_[name] = weights;
    space_.size_of = [this](const Plan& plan) {
      int64_t bits = 0;
      for (const auto& [layer, count] : weights_) {
        const auto found = plan.schemes.find(layer);
        bits += count * (found == plan.schemes.end() ? 32 : found->second == kLow ? 4 : 8);
      }
      return bits / 8;
    };
  }

  // The plans that are measured on search samples, as the layers in 8 bits; what is in float is in brackets.
  std::vector<std::string> asked(const std::string& strategy, const std::function<double(const Plan&)>& loss) {
    Study study = Study::open(folder_ / strategy / "study.jsonl", {.search_samples = 2});
    std::vector<std::string> plans;
    const auto searcher = make_strategy(strategy, space_, {.evaluations = 100});
    for (auto proposals = searcher->next(study); !proposals.empty(); proposals = searcher->next(study))
      for (const Proposal& proposal : proposals) {
        Trial trial{.id = proposal.plan.hash(), .plan = proposal.plan, .part = proposal.part};
        trial.measurement.emplace().size_bytes = space_.size_of(proposal.plan);
        trial.measurement->losses.kl = loss(proposal.plan);
        if (proposal.part == Part::kSearch) plans.push_back(text_of(proposal.plan));
        study.append(std::move(trial));
      }
    return plans;
  }

  std::string text_of(const Plan& plan) const {
    std::string text;
    for (const SearchGroup& group : space_.groups) {
      const auto found = plan.schemes.find(group.layers[0]);
      if (found == plan.schemes.end()) text += "(" + group.layers[0] + ")";
      else if (found->second == kHigh) text += group.layers[0];
    }
    return text;
  }

  fs::path folder_;
  SearchSpace space_;
  std::map<LayerId, int64_t> weights_;
};

double nothing(const Plan&) { return 1; }

TEST_F(OtherTools, ScoresOfNncfDecideWhichGroupsGoTo4BitsFirst) {
  for (const char* name : {"a", "b", "c"}) add_group(name);
  space_.local_errors = [](std::span<const Plan> plans) {
    EXPECT_EQ(plans.size(), 2u) << "each scheme everywhere";
    return std::vector<LocalError>{
        {.layer = "a", .square = 1, .variance = 8, .magnitude = 1, .worst_output = 2, .norm = 3},
        {.layer = "b", .square = 4, .variance = 2, .magnitude = 1, .worst_output = 1, .norm = 1},
        {.layer = "c", .square = 1, .variance = 1, .magnitude = 9, .worst_output = 4, .norm = 5}};
  };
  using Plans = std::vector<std::string>;
  // 1 / noise: c 1/4, a 1/2, b 1. Squares times norms: a 3, b 4, c 5. Variance: c 1/4, b 2, a 4. Magnitude: a 1/2, b 1,
  // c 9/4.
  EXPECT_EQ(asked("weight_quantization_error", nothing), (Plans{"abc", "ab", "b", ""}));
  EXPECT_EQ(asked("hessian_input_activation", nothing), (Plans{"abc", "bc", "c", ""}));
  EXPECT_EQ(asked("mean_activation_variance", nothing), (Plans{"abc", "ab", "a", ""}));
  EXPECT_EQ(asked("mean_activation_magnitude", nothing), (Plans{"abc", "bc", "c", ""}));
}

TEST_F(OtherTools, WeightedErrorGoesAlongTheHullOfErrorsPerByte) {
  add_group("a", 1000), add_group("b", 4000);
  space_.local_errors = [](std::span<const Plan>) {
    // In the order of Scheme: 8 bits before 4.
    return std::vector<LocalError>{{.layer = "a", .relative = {1, 10}}, {.layer = "b", .relative = {1, 21}}};
  };
  // A byte saves 9 / 500 in a, 20 / 2,000 in b; from there to float 1 / 3,000 and 1 / 12,000.
  EXPECT_EQ(asked("weighted_error", nothing), (std::vector<std::string>{"", "a", "ab", "(a)b", "(a)(b)"}));
}

TEST_F(OtherTools, GreedyBitsTakesTheStepThatSavesMostForItsBytes) {
  add_group("a", 1000), add_group("b", 1000), add_group("c", 8000);
  // b is worth most, c much but for many bytes, and a makes it worse.
  const auto loss = [&](const Plan& plan) {
    double sum = 10;
    const auto has = [&](const char* layer, double gain) {
      const auto found = plan.schemes.find(layer);
      if (found == plan.schemes.end() || found->second != kLow) sum -= gain;
    };
    has("a", -1), has("b", 3), has("c", 5);
    return sum;
  };
  const std::vector<std::string> plans = asked("greedy_bits", loss);
  // From 4 bits everywhere each group alone, then the path: b in 8 bits, c in 8 bits.
  EXPECT_EQ(plans, (std::vector<std::string>{"", "a", "b", "c", "bc"}));
}

// Blocks of queries, keys, values, an output, an up and a down projection, as torch exports them.
Model transformer(int blocks) {
  std::string text = "<ir_version: 8, opset_import: [\"\" : 17]> g (float[1,4,8] x0) => (float[1,4,20] y) {";
  for (int b = 0; b < blocks; ++b)
    text += fmt::format(
        "[q{0}] q{0} = MatMul(x{0}, wq) [k{0}] k{0} = MatMul(x{0}, wk) [v{0}] v{0} = MatMul(x{0}, wv) "
        "t{0} = Transpose<perm = [0, 2, 1]>(k{0}) s{0} = MatMul(q{0}, t{0}) p{0} = Softmax(s{0}) "
        "m{0} = MatMul(p{0}, v{0}) [o{0}] o{0} = MatMul(m{0}, wo) h{0} = Add(x{0}, o{0}) "
        "[u{0}] u{0} = MatMul(h{0}, wu) r{0} = Relu(u{0}) [d{0}] d{0} = MatMul(r{0}, wd) x{1} = Add(h{0}, d{0}) ",
        b, b + 1);
  Model model = parse_model_text(text + fmt::format("[head] y = MatMul(x{}, wh) }}", blocks));
  const auto add = [&](const char* name, int64_t inputs, int64_t outputs) {
    model.graph.initializers.push_back(
        {name, Tensor::from(DataType::kFloat, {inputs, outputs},
                            std::vector<float>(static_cast<size_t>(inputs * outputs), 1.0f))});
  };
  for (const char* name : {"wq", "wk", "wv", "wo"}) add(name, 8, 8);
  add("wu", 8, 16), add("wd", 16, 8), add("wh", 8, 20);
  return model;
}

TEST_F(OtherTools, MixedLayersKnowsTheBlocksOfATransformer) {
  const Model model = transformer(8);
  space_.model = &model;
  for (int b = 0; b < 8; ++b)
    for (const char* part : {"q", "k", "v", "o", "u", "d"}) add_group(fmt::format("{}{}", part, b));
  add_group("head");
  // The first eighth, the last, and of those between every third.
  const std::string mixed = "v0d0v3d3v6d6v7d7";
  std::string all;
  for (const SearchGroup& group : space_.groups) all += group.layers[0];
  EXPECT_EQ(asked("mixed_layers", nothing), (std::vector<std::string>{"", "head", mixed, mixed + "head", all}));
}

}  // namespace
}  // namespace seqto
