#include "search/latency/latency_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto::internal {
namespace {

constexpr size_t kGroups = 12;

// A chain of layers, whose profile says that each takes 102 us in float and 52 in int8, 2 of them for being profiled.
// What they take in a mixed plan is another matter: some more, some less, and what passes between int8 and float three
// times what is usual.
class LatencyModels : public ::testing::Test {
 protected:
  LatencyModels() {
    std::string text = fmt::format(
        "<ir_version: 8, opset_import: [\"\" : 17]> g (float[1,25000] x0) => (float[1,25000] x{}) <float[1,25000] x1",
        kGroups);
    for (size_t i = 2; i < kGroups; ++i) text += fmt::format(", float[1,25000] x{}", i);
    text += "> {";
    for (size_t i = 0; i < kGroups; ++i) {
      const std::string name = fmt::format("n{}", i);
      text += fmt::format(" [{}] x{} = Relu(x{})", name, i + 1, i);
      groups_.push_back({.layers = {name}, .choices = {{}, {}}, .schemes = {Scheme::kFloat32, Scheme::kInt8}});
    }
    model_ = parse_model_text(text + " }");
    const std::vector<double> in_float(kGroups, 1.02e5), in_int8(kGroups, 5.2e4), nodes(kGroups, 1);
    const nlohmann::json profile{{"times", {{"float32", in_float}, {"int8", in_int8}, {"int8_weights", in_float}}},
                                 {"nodes", {{"float32", nodes}, {"int8", nodes}, {"int8_weights", nodes}}}};
    profile_ = profile.dump();
  }

  Plan drawn(std::mt19937_64& engine) const {
    std::uniform_real_distribution<double> uniform;
    Plan plan;
    const double share = uniform(engine);
    for (size_t g = 0; g < kGroups; ++g)
      if (uniform(engine) < share) plan.schemes[fmt::format("n{}", g)] = Scheme::kInt8;
    return plan;
  }

  static double truth(const Plan& plan) {
    double ns = 0;
    bool before = false;
    for (size_t g = 0; g < kGroups; ++g) {
      const bool is_int8 = plan.schemes.contains(fmt::format("n{}", g));
      ns += is_int8 ? 5e4 * (g % 3 == 0 ? 1.6 : 0.9) : 1e5;
      if (g > 0 && is_int8 != before) ns += 3 * 10500;
      before = is_int8;
    }
    return ns;
  }

  double error(const LatencyModel& latencies) const {
    std::mt19937_64 engine(7);
    double sum = 0;
    constexpr int kPlans = 100;
    for (int i = 0; i < kPlans; ++i) {
      const Plan plan = drawn(engine);
      sum += std::abs(latencies.predict(plan) / truth(plan) - 1) / kPlans;
    }
    return sum;
  }

  Model model_;
  std::vector<SearchGroup> groups_;
  std::string profile_;
  SearchTuning tuning_;
  const LatencyModel::Source source_{model_, groups_, tuning_};
};

TEST_F(LatencyModels, LearnsFromMixedPlansWhatTheProfileDoesNotTell) {
  LatencyModel latencies = LatencyModel::from_json(profile_, source_);
  const double before = error(latencies);
  std::mt19937_64 engine(1);
  std::vector<LatencyModel::Measured> measured{{{}, truth({})}};
  for (int i = 0; i < 20; ++i) {
    const Plan plan = drawn(engine);
    measured.push_back({plan, truth(plan)});
  }
  latencies.learn(measured);
  EXPECT_GT(before, 0.06);
  EXPECT_LT(error(latencies), 0.02);
}

// A search goes by what a group's change saves: a measured plan must not stand out from those beside it.
TEST_F(LatencyModels, AMeasurementThatIsOffDoesNotMakeEveryNeighbourFaster) {
  LatencyModel latencies = LatencyModel::from_json(profile_, source_);
  std::mt19937_64 engine(2);
  std::vector<LatencyModel::Measured> measured{{{}, truth({})}};
  for (int i = 0; i < 20; ++i) {
    const Plan plan = drawn(engine);
    measured.push_back({plan, truth(plan)});
  }
  Plan all;
  for (size_t g = 0; g < kGroups; ++g) all.schemes[fmt::format("n{}", g)] = Scheme::kInt8;
  measured.push_back({all, 1.03 * truth(all)});
  EXPECT_FALSE(latencies.measured(all));
  latencies.learn(measured);
  EXPECT_EQ(latencies.measured(all), 1.03 * truth(all));
  double off = 0;
  for (size_t g = 0; g < kGroups; ++g) {
    Plan other = all;
    other.schemes.erase(fmt::format("n{}", g));
    off += (latencies.predict(other) - latencies.predict(all) - truth(other) + truth(all)) / kGroups;
  }
  EXPECT_LT(std::abs(off), 0.015 * truth(all));
}

// Tells of all plans but those with int8 layers, which it does not take.
class WithoutInt8 : public Runner {
 public:
  std::vector<NodePlacement> placement(const Model& model, std::span<const Tensor>, int) override {
    if (model.graph.name == "int8") throw Error(Code::kInvalidInput, "[load] an int8 layer found");
    std::vector<NodePlacement> nodes;
    for (const Node& node : model.graph.nodes) nodes.push_back({.node = node.name, .ns = 1000});
    return nodes;
  }
  std::unique_ptr<Session> load(const Model&, const SessionOptions&) override { return nullptr; }
  std::unique_ptr<Session> load_file(const std::string&, const SessionOptions&) override { return nullptr; }
  Model optimized(const Model& model) override { return model; }
  std::string description() const override { return "without int8"; }
};

TEST_F(LatencyModels, AUniformPlanThatTheRuntimeRefusesEndsNoSearch) {
  WithoutInt8 runner;
  const auto candidate = [&](const Plan& plan) {
    Model model = model_;
    if (!plan.schemes.empty()) model.graph.name = "int8";
    return model;
  };
  const auto latencies = LatencyModel::profiled(source_, candidate, runner, {});
  ASSERT_TRUE(latencies.has_value());
  Plan plan;
  plan.schemes["n0"] = Scheme::kInt8;
  EXPECT_GT(latencies->predict(plan), 0);
}

TEST_F(LatencyModels, LearnAsMuchAsTheTuningLetsThem) {
  WithoutInt8 runner;
  const auto candidate = [&](const Plan&) { return model_; };
  Plan plan;
  plan.schemes["n0"] = Scheme::kInt8;
  std::vector<double> learned;
  for (const double deviation : {0.0, 0.3}) {
    tuning_.latency_prior = tuning_.latency_group = deviation;
    for (auto latencies :
         {LatencyModel::profiled(source_, candidate, runner, {}).value(), LatencyModel::from_json(profile_, source_)}) {
      const double before = latencies.predict(plan);
      latencies.learn(std::vector<LatencyModel::Measured>{{plan, 2 * before}});
      learned.push_back(latencies.predict(plan) / before);
    }
  }
  EXPECT_DOUBLE_EQ(learned[0], 1);
  EXPECT_DOUBLE_EQ(learned[1], 1);
  EXPECT_GT(learned[2], 1.1);
  EXPECT_GT(learned[3], 1.1);
}

TEST_F(LatencyModels, ComesBackFromTheStudyAsItWas) {
  LatencyModel latencies = LatencyModel::from_json(profile_, source_);
  std::mt19937_64 engine(3);
  std::vector<LatencyModel::Measured> measured;
  for (int i = 0; i < 5; ++i) {
    const Plan plan = drawn(engine);
    measured.push_back({plan, truth(plan)});
  }
  latencies.learn(measured);
  const LatencyModel back = LatencyModel::from_json(latencies.to_json(), source_);
  for (int i = 0; i < 20; ++i) {
    const Plan plan = drawn(engine);
    EXPECT_EQ(back.predict(plan), latencies.predict(plan));
  }
}

TEST_F(LatencyModels, OfOtherGroupsAreRefused) {
  nlohmann::json profile = nlohmann::json::parse(profile_);
  profile["times"]["int8"].erase(0);
  EXPECT_THROW(LatencyModel::from_json(profile.dump(), source_), Error);
  profile = nlohmann::json::parse(profile_);
  profile["measured"] = {{{"schemes", {"int8"}}, {"ns", 1}}};
  EXPECT_THROW(LatencyModel::from_json(profile.dump(), source_), Error);
}

TEST_F(LatencyModels, ADamagedNoteIsRefused) {
  const auto code_of = [&](const std::string& text) {
    try {
      LatencyModel::from_json(text, source_);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("begin a new one"), std::string::npos) << error.what();
      return error.code();
    }
    ADD_FAILURE() << text << " was taken";
    return Code::kUsage;
  };
  nlohmann::json no_float = nlohmann::json::parse(profile_), no_nodes = no_float, words = no_float, no_time = no_float;
  no_float["times"].erase("float32");
  no_nodes["nodes"].erase("int8");
  words["times"]["int8"][3] = "fast";
  no_time["measured"] = {{{"schemes", std::vector<std::string>(kGroups, "int8")}}};
  for (const nlohmann::json& damaged : {no_float, no_nodes, words, no_time, nlohmann::json::object()})
    EXPECT_EQ(code_of(damaged.dump()), Code::kInvalidInput);
  EXPECT_EQ(code_of(profile_.substr(0, profile_.size() / 2)), Code::kInvalidInput);
}

}  // namespace
}  // namespace seqto::internal
