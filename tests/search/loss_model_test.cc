#include "search/strategies/loss_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "search/strategies/strategies.h"
#include "seqto/search.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using namespace internal;

// One layer that three others read: what their tensor loses in 8 bits is lost once, as soon as one of the four is
// static.
class ExpectedLosses : public ::testing::Test {
 protected:
  ExpectedLosses() : folder_(fs::temp_directory_path() / ("seqto_loss_" + std::to_string(::getpid()))) {
    for (const char* name : {"a", "b", "c", "d"})
      space_.groups.push_back(
          {.layers = {name},
           .choices = {{}, {.schemes = {{name, Scheme::kInt8Weights}}}, {.schemes = {{name, Scheme::kInt8}}}},
           .schemes = {Scheme::kFloat32, Scheme::kInt8Weights, Scheme::kInt8}});
    space_.size_of = [](const Plan& plan) { return 1000 - 100 * static_cast<int64_t>(plan.schemes.size()); };
  }
  ~ExpectedLosses() override { fs::remove_all(folder_); }

  static double weights(const std::string& layer) { return layer == "a" ? 0.004 : 0.001; }
  static constexpr double kTensor = 0.1;

  static double loss(const Plan& plan) {
    double sum = 0;
    bool lost = false;
    for (const auto& [layer, scheme] : plan.schemes) sum += weights(layer), lost |= scheme == Scheme::kInt8;
    return sum + (lost ? kTensor : 0);
  }

  void measure(Study& study, const Plan& plan, std::optional<double> loss) const {
    Trial trial{.id = plan.hash(), .plan = plan, .part = Part::kSearch};
    if (loss) {
      trial.measurement.emplace().size_bytes = space_.size_of(plan);
      trial.measurement->losses.kl = *loss;
    }
    study.append(std::move(trial));
  }

  Study measured(Assignments& assignments, bool one_in) const {
    Study study = Study::open(folder_ / "study.jsonl", {.search_samples = 8});
    std::vector<Plan> plans;
    for (const DetailedScheme& scheme : assignments.schemes())
      plans.push_back(assignments.plan(assignments.uniform(scheme)));
    for (size_t g = 0; one_in && g < assignments.groups(); ++g)
      for (int c : {1, 2}) {
        Assignment alone = assignments.all_float();
        alone[g] = c;
        plans.push_back(assignments.plan(alone));
      }
    for (const Plan& plan : plans) measure(study, plan, loss(plan));
    return study;
  }

  ChoiceTable expected(const Study& study, Assignments& assignments) const {
    Archive archive(space_, {.objectives = {"kl", "size"}});
    archive.update(study);
    return expected_losses(archive, assignments);
  }

  fs::path folder_;
  SearchSpace space_;
};

// The report shows KL beside KL, also where the search steadies it by what samples lose together.
TEST_F(ExpectedLosses, WhatIfTellsTheLossItself) {
  Assignments assignments(space_);
  const Study plain = measured(assignments, true);
  Study study = Study::open(folder_ / "steady.jsonl", plain.header());
  for (Trial t : plain.trials()) {
    t.measurement->pooled_kl = 100 * t.measurement->losses.kl;
    study.append(std::move(t));
  }
  space_.latency_of = [this](const Plan& plan) { return static_cast<double>(space_.size_of(plan)); };
  const auto first = [&](const std::vector<std::string>& objectives) {
    return what_if(space_, {.objectives = objectives}, study).groups.at(0).choices.at(1).loss;
  };
  EXPECT_EQ(first({"kl", "size", "latency"}), first({"kl", "size"}));
}

// What fills a bound of the size comes on top of the evaluations that the search may use.
TEST_F(ExpectedLosses, PlansThatFillABoundAreNotCounted) {
  Study study = Study::open(folder_ / "bound.jsonl", {.search_samples = 8});
  Assignments assignments(space_);
  Trial trial{.id = "a", .plan = assignments.plan(assignments.uniform({Scheme::kInt8, {}})), .part = Part::kSearch};
  for (const char* step : {kBoundStep, kSwapStep}) {
    trial.step = step;
    study.append(trial);
  }
  Archive archive(space_, {.objectives = {"kl", "size"}});
  archive.update(study);
  EXPECT_EQ(archive.evaluations(), 1);
}

TEST_F(ExpectedLosses, AddUpToTheUniformPlans) {
  Assignments assignments(space_);
  for (bool one_in : {false, true}) {
    const ChoiceTable losses = expected(measured(assignments, one_in), assignments);
    for (int c : {1, 2}) {
      const Assignment uniform(4, c);
      EXPECT_NEAR(total(losses, uniform), loss(assignments.plan(uniform)), 1e-12) << "what is shared is lost once";
    }
    if (one_in) EXPECT_NEAR(losses[0][1], 4 * losses[1][1], 1e-12) << "in the proportion of one at a time";
    else EXPECT_NEAR(losses[0][1], losses[1][1], 1e-12) << "in that of the bytes";
    fs::remove_all(folder_);
  }
}

TEST_F(ExpectedLosses, AFailedPlanIsWorseThanAnyAndEndsNothing) {
  Assignments assignments(space_);
  Study study = measured(assignments, true);
  Assignment failed = assignments.all_float();
  failed[0] = 2;
  measure(study, assignments.plan(failed), {});
  const ChoiceTable losses = expected(study, assignments);
  for (const auto& row : losses)
    for (double loss : row) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_GT(losses[0][2], 100 * losses[1][2]);
}

TEST_F(ExpectedLosses, OfPlansThatLoseNothingAreZero) {
  Assignments assignments(space_);
  Study study = Study::open(folder_ / "study.jsonl", {.search_samples = 8});
  for (const DetailedScheme& scheme : assignments.schemes())
    measure(study, assignments.plan(assignments.uniform(scheme)), 0);
  for (const auto& row : expected(study, assignments))
    for (double loss : row) EXPECT_EQ(loss, 0);
}

TEST_F(ExpectedLosses, ASchemeWhosePlanFailsIsNotFree) {
  Assignments assignments(space_);
  Study study = Study::open(folder_ / "study.jsonl", {.search_samples = 8});
  for (const DetailedScheme& scheme : assignments.schemes())
    measure(study, assignments.plan(assignments.uniform(scheme)),
            scheme.scheme == Scheme::kInt8 ? std::nullopt : std::optional(0.01));
  for (const auto& row : expected(study, assignments)) {
    EXPECT_DOUBLE_EQ(row[1], 0.0025);
    EXPECT_GT(row[2], 1);
  }
}

// A study that goes on with other objectives has trials with a pooled loss and trials without.
TEST_F(ExpectedLosses, AreOfOneKindAlone) {
  Assignments assignments(space_);
  space_.latency_of = [](const Plan&) { return 1.0; };
  const auto losses = [&](const char* name, bool first_has_it, const std::vector<std::string>& objectives) {
    Study study = Study::open(folder_ / name, {.search_samples = 8});
    bool pools = first_has_it;
    for (int c : {1, 2}) {
      Trial trial{.plan = assignments.plan({c, 0, 0, 0}), .part = Part::kSearch};
      trial.id = trial.plan.hash();
      trial.measurement.emplace().losses.kl = 0.01;
      if (std::exchange(pools, !pools)) trial.measurement->pooled_kl = 0.04;
      study.append(std::move(trial));
    }
    Archive archive(space_, {.objectives = objectives});
    archive.update(study);
    std::vector<double> found;
    for (const Entry& entry : archive.entries()) found.push_back(*entry.search);
    return found;
  };
  const std::vector<double> plain{0.01, 0.01};
  EXPECT_EQ(losses("fewer", true, {"kl", "size"}), plain);
  EXPECT_EQ(losses("more", false, {"kl", "size", "latency"}), plain);
  EXPECT_NEAR(losses("latency", true, {"kl", "size", "latency"})[0], 0.02, 1e-12);
}

}  // namespace
}  // namespace seqto
