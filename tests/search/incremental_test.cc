#include <gtest/gtest.h>

#include <filesystem>

#include "seqto/error.h"
#include "seqto/search.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

class IncrementalTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove(file_); }
  void TearDown() override { fs::remove(file_); }

  Study open() { return Study::open(file_, {}); }
  std::unique_ptr<Strategy> strategy() const { return make_strategy("incremental", space_); }

  static Trial trial(const Proposal& proposal, double loss) {
    Trial trial{.id = proposal.excluded.empty() ? "full" : proposal.excluded.back(),
                .plan = proposal.plan,
                .excluded = proposal.excluded,
                .measurement = Measurement{}};
    trial.measurement->losses.rank_dissimilarity = loss;
    return trial;
  }
  // What a caller does: candidates equal to the one before leave no trial. Returns the lists that were
  // proposed.
  static std::vector<Names> search(Strategy& strategy, Study& study, size_t at_most = 100) {
    std::vector<Names> proposed;
    while (proposed.size() < at_most) {
      const std::vector<Proposal> proposals = strategy.next(study);
      if (proposals.empty()) break;
      const Proposal* proposal = proposals.data();
      proposed.push_back(proposal->excluded);
      const bool same = !study.trials().empty() && study.trials().back().id != "float" &&
                        study.trials().back().plan == proposal->plan;
      if (!same) study.append(trial(*proposal, 0.5));
    }
    return proposed;
  }

  fs::path file_ = fs::path(testing::TempDir()) /
                   (std::string("seqto_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl");
  SearchSpace space_{.exclusion_order = {"t1", "b", "t2", "a", "b", "t3"}, .layers = {"a", "b", "c"}};
};

TEST_F(IncrementalTest, ListGrowsByOneEntry) {
  Study study = open();
  study.append({.id = "float", .measurement = Measurement{}});
  const auto made = strategy();
  EXPECT_EQ(search(*made, study),
            (std::vector<Names>{
                {}, {"t1"}, {"t1", "b"}, {"t1", "b", "t2"}, {"t1", "b", "t2", "a"}, {"t1", "b", "t2", "a", "t3"}}));
  ASSERT_EQ(study.trials().size(), 4u);
  EXPECT_EQ(study.trials()[1].plan.schemes.size(), 3u);
  EXPECT_EQ(study.trials()[3].plan.schemes, (std::map<LayerId, Scheme>{{"c", Scheme::kInt8}}));
  EXPECT_TRUE(made->next(study).empty());
}

TEST_F(IncrementalTest, ResumedStudyEqualsAnUninterruptedOne) {
  std::vector<std::string> whole;
  {
    Study study = open();
    search(*strategy(), study);
    for (const Trial& trial : study.trials()) whole.push_back(trial_to_json(trial));
  }
  for (size_t cycles = 0; cycles < 8; ++cycles) {
    fs::remove(file_);
    {
      Study study = open();
      search(*strategy(), study, cycles);
    }
    Study study = open();
    search(*strategy(), study);
    std::vector<std::string> resumed;
    for (const Trial& trial : study.trials()) resumed.push_back(trial_to_json(trial));
    EXPECT_EQ(resumed, whole) << cycles;
  }
}

TEST_F(IncrementalTest, StopsAtTheThreshold) {
  Study study = open();
  const auto made = strategy();
  study.append(trial(made->next(study).at(0), 0.25));
  study.append(trial(made->next(study).at(0), 0.0));
  EXPECT_TRUE(made->next(study).empty());
  EXPECT_TRUE(strategy()->next(study).empty());
  EXPECT_TRUE(make_strategy("incremental", space_, {.threshold = 0.1})->next(study).empty());
  EXPECT_FALSE(make_strategy("incremental", space_, {.threshold = -1})->next(study).empty());
}

TEST_F(IncrementalTest, FailureIsACycleDone) {
  Study study = open();
  const Proposal first = strategy()->next(study).at(0);
  study.append({.id = "full", .plan = first.plan, .excluded = first.excluded, .failure = "no kernel"});
  EXPECT_EQ(strategy()->next(study).at(0).excluded, Names{"t1"});
}

TEST_F(IncrementalTest, FloatTrialAfterwardsChangesNothing) {
  Study study = open();
  study.append(trial(strategy()->next(study).at(0), 0.5));
  study.append({.id = "float", .measurement = Measurement{}});
  EXPECT_EQ(strategy()->next(study).at(0).excluded, Names{"t1"});
}

TEST_F(IncrementalTest, NothingToQuantizeIsNothingToTry) {
  Study study = open();
  space_.layers.clear();
  EXPECT_TRUE(strategy()->next(study).empty());
  space_ = {.layers = {"a"}};
  EXPECT_EQ(search(*strategy(), study), std::vector<Names>{Names{}});
}

TEST_F(IncrementalTest, UnknownNamesAreListed) {
  auto message = [&](const std::string& name, const StrategyOptions& options) -> std::string {
    try {
      make_strategy(name, space_, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUsage);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("incremental", {}), "");
  EXPECT_EQ(message("greedy", {}),
            "[tune] strategy 'greedy' found; one of chain, incremental, dynamic_program, sensitivity_list, "
            "greedy_revert, greedy_bits, weighted_error, weight_quantization_error, hessian_input_activation, "
            "mean_activation_variance, mean_activation_magnitude, mixed_layers, nsga2, random expected; did you mean "
            "'greedy_revert'?");
}

}  // namespace
}  // namespace seqto
