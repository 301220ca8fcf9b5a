#include "search/strategies/loss_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "search/strategies/steps.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using namespace internal;

// One layer that three others read: what their tensor loses in 8 bits is lost once, as soon as one of the four is
// static.
class LossModels : public ::testing::Test {
 protected:
  LossModels() : folder_(fs::temp_directory_path() / ("seqto_loss_" + std::to_string(::getpid()))) {
    model_ = parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]> g
      (float[1,1,2,2] x) => (float[1,1,2,2] p, float[1,1,2,2] q, float[1,1,2,2] r)
      <float[1,1,1,1] s = {1}, float[1,1,1,1] t = {2}, float[1,1,1,1] u = {3}, float[1,1,1,1] v = {4}> {
        [a] m = Conv(x, s)
        [hand] n = Identity(m)
        [b] p = Conv(n, t)
        [c] q = Conv(n, u)
        [d] r = Conv(m, v)
      })");
    space_.model = &model_;
    for (const char* name : {"a", "b", "c", "d"})
      space_.groups.push_back(
          {.layers = {name},
           .choices = {{}, {.schemes = {{name, Scheme::kInt8Weights}}}, {.schemes = {{name, Scheme::kInt8}}}},
           .schemes = {Scheme::kFloat32, Scheme::kInt8Weights, Scheme::kInt8}});
    space_.size_of = [](const Plan& plan) { return 1000 - 100 * static_cast<int64_t>(plan.schemes.size()); };
    space_.latency_of = [](const Plan& plan) {
      double time = 100;
      for (const auto& [layer, scheme] : plan.schemes) time -= scheme == Scheme::kInt8 ? 10 : 0;
      return time;
    };
  }
  ~LossModels() override { fs::remove_all(folder_); }

  static double weights(const std::string& layer) { return layer == "a" ? 0.004 : 0.001; }
  static constexpr double kTensor = 0.1;

  static double loss(const Plan& plan) {
    double sum = 0;
    bool lost = false;
    for (const auto& [layer, scheme] : plan.schemes) sum += weights(layer), lost |= scheme == Scheme::kInt8;
    return sum + (lost ? kTensor : 0);
  }

  void measure(Study& study, const Plan& plan) const {
    Trial trial{.id = plan.hash(), .plan = plan, .part = Part::kSearch};
    trial.measurement.emplace().size_bytes = space_.size_of(plan);
    trial.measurement->losses.kl = loss(plan);
    study.append(std::move(trial));
  }

  // Uniform plans and one in.
  Study measured(Assignments& assignments) const {
    Study study = Study::open(folder_ / "study.jsonl", {.search_samples = 8});
    for (const DetailedScheme& scheme : assignments.schemes())
      measure(study, assignments.plan(assignments.uniform(scheme)));
    for (size_t g = 0; g < assignments.groups(); ++g)
      for (int c : {1, 2}) measure(study, assignments.plan(after(assignments.all_float(), {{g, c}})));
    return study;
  }

  fs::path folder_;
  Model model_;
  SearchSpace space_;
};

TEST_F(LossModels, ATensorIsLostOnceWhoeverReadsIt) {
  Assignments assignments(space_);
  ASSERT_EQ(assignments.shared_tensors(), (std::vector<std::vector<size_t>>{{0, 1, 2, 3}}));
  Study study = measured(assignments);
  Archive archive(space_, {.objectives = {"kl", "size", "latency"}});
  archive.update(study);
  for (const bool fitted : {false, true}) {
    if (fitted) {
      for (const Assignment& mixed : {Assignment{2, 2, 0, 0}, {0, 2, 2, 2}, {2, 0, 2, 1}, {1, 1, 2, 2}})
        measure(study, assignments.plan(mixed));
      archive.update(study);
    }
    LossModel model(archive, assignments);
    if (fitted) model.fit(archive);
    for (int code = 1; code < 81; ++code) {
      const Assignment plan{code % 3, code / 3 % 3, code / 9 % 3, code / 27};
      const double truth = loss(assignments.plan(plan));
      // One choice at a time cannot tell a group's own loss from a shared one.
      EXPECT_LT(std::abs(model.loss_of(plan) - truth), (fitted ? 0.4 : 0.8) * truth) << code;
      const Step step{{0, (plan[0] + 1) % 3}, {2, (plan[2] + 2) % 3}};
      EXPECT_NEAR(model.change(plan, step), model.loss_of(after(plan, step)) - model.loss_of(plan), 1e-12) << code;
    }
    const ChoiceTable table = model.by_choice();
    EXPECT_NEAR(total(table, {2, 2, 2, 2}), model.loss_of({2, 2, 2, 2}), 1e-12);
  }
  // Added up, one in says four times as much of the model in int8.
  EXPECT_GT(4 * kTensor, 3.5 * loss(assignments.plan({2, 2, 2, 2})));
}

TEST_F(LossModels, StepsOfAllThatShareATensorGainBackWhatItLoses) {
  Assignments assignments(space_);
  const Study study = measured(assignments);
  Archive archive(space_, {.objectives = {"kl", "size", "latency"}});
  archive.update(study);
  const LossModel model(archive, assignments);
  ChoiceTable cost;
  for (size_t g = 0; g < 4; ++g) cost.push_back({0, -1, -3});
  const std::vector<Assignment> plans = descent(model, assignments, cost);
  EXPECT_EQ(plans.front(), (Assignment{2, 2, 2, 2}));
  EXPECT_EQ(plans.back(), assignments.all_float());
  for (size_t i = 1; i < plans.size(); ++i) {
    EXPECT_LT(model.loss_of(plans[i]), model.loss_of(plans[i - 1]));
    EXPECT_GT(total(cost, plans[i]), total(cost, plans[i - 1]));
  }
  // From all of it in int8 a single group gains next to nothing, and so the first step moves several.
  size_t moved = 0;
  for (size_t g = 0; g < 4; ++g) moved += plans[1][g] != 2;
  EXPECT_GT(moved, 1u);
}

TEST_F(LossModels, AFailedPlanIsWorseThanAnyAndEndsNothing) {
  Assignments assignments(space_);
  Study study = measured(assignments);
  Trial failed{.id = "failed", .plan = assignments.plan({2, 0, 0, 0}), .part = Part::kSearch, .failure = "no"};
  study.append(std::move(failed));
  Archive archive(space_, {.objectives = {"kl", "size", "latency"}});
  archive.update(study);
  const LossModel model(archive, assignments);
  EXPECT_TRUE(std::isfinite(model.loss_of({2, 2, 2, 2})));
  EXPECT_FALSE(descent(model, assignments, {{0, -1, -3}, {0, -1, -3}, {0, -1, -3}, {0, -1, -3}}).empty());
}

TEST_F(LossModels, WhereNothingIsLostTheCheapestPlanIsAll) {
  Assignments assignments(space_);
  Study study = Study::open(folder_ / "study.jsonl", {.search_samples = 8});
  for (const DetailedScheme& scheme : assignments.schemes()) {
    const Plan plan = assignments.plan(assignments.uniform(scheme));
    Trial trial{.id = plan.hash(), .plan = plan, .part = Part::kSearch};
    trial.measurement.emplace().size_bytes = space_.size_of(plan);
    study.append(std::move(trial));
  }
  Archive archive(space_, {.objectives = {"kl", "size", "latency"}});
  archive.update(study);
  const ChoiceTable cost{{0, -1, -3}, {0, -1, -3}, {0, -1, -3}, {0, -1, -3}};
  EXPECT_EQ(descent(LossModel(archive, assignments), assignments, cost), (std::vector<Assignment>{{2, 2, 2, 2}}));
}

}  // namespace
}  // namespace seqto
