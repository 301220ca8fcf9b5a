// A search that follows an optimizer of the caller's own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "search/strategies/strategies.h"
#include "seqto/error.h"
#include "synthetic.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using namespace internal;

struct Log {
  std::vector<Plan> asked, told;
  std::vector<double> losses;
};

// Asks for some plans, a few at a time, and writes down what it is told.
class Listed : public Proposer {
 public:
  Listed(std::vector<Plan> plans, size_t batch, Log& log) : plans_(std::move(plans)), batch_(batch), log_(log) {}
  std::vector<Plan> ask() override {
    EXPECT_EQ(log_.told.size(), log_.asked.size());
    std::vector<Plan> next;
    for (; next.size() < batch_ && at_ < plans_.size(); ++at_) next.push_back(plans_[at_]);
    log_.asked.insert(log_.asked.end(), next.begin(), next.end());
    return next;
  }
  void tell(const Trial& trial) override {
    EXPECT_EQ(trial.part, Part::kSearch);
    log_.told.push_back(trial.plan);
    log_.losses.push_back(trial.measurement ? trial.measurement->losses.kl : std::numeric_limits<double>::infinity());
  }

 private:
  std::vector<Plan> plans_;
  size_t batch_, at_ = 0;
  Log& log_;
};

class Proposers : public ::testing::Test {
 protected:
  Proposers() : folder_(fs::temp_directory_path() / ("seqto_proposer_" + std::to_string(::getpid()))) {}
  ~Proposers() override { fs::remove_all(folder_); }

  Study study(const std::string& name) {
    return Study::open(folder_ / name / "study.jsonl", {.search_samples = 2 * Synthetic::kSamples});
  }
  std::vector<Plan> random(size_t count) const {
    const Assignments assignments(problem_.space());
    std::vector<Plan> plans;
    for (const Assignment& assignment : distinct_plans(assignments, count, 3))
      plans.push_back(assignments.plan(assignment));
    return plans;
  }
  std::unique_ptr<Strategy> listed(std::vector<Plan> plans, Log& log, const StrategyOptions& options = {}) const {
    return make_strategy(std::make_unique<Listed>(std::move(plans), 7, log), problem_.space(), options);
  }
  // At most so many trials, as when a run is interrupted.
  void run(Strategy& strategy, Study& study, size_t most = SIZE_MAX) const {
    for (auto proposals = strategy.next(study); !proposals.empty(); proposals = strategy.next(study))
      for (const Proposal& proposal : proposals) {
        if (study.trials().size() == most) return;
        study.append(problem_.trial(proposal));
      }
  }

  const Synthetic problem_{8, 5};
  fs::path folder_;
};

void expect_equal(const Study& a, const Study& b) {
  ASSERT_EQ(a.trials().size(), b.trials().size());
  for (size_t i = 0; i < a.trials().size(); ++i) EXPECT_EQ(trial_to_json(a.trials()[i]), trial_to_json(b.trials()[i]));
}

TEST_F(Proposers, TheSamePlansGiveTheStudyOfStrategyRandom) {
  const StrategyOptions options{.evaluations = 40, .seed = 3, .racing = false};
  Study whole = study("random"), own = study("own");
  search(problem_, "random", options, whole);
  Log log;
  run(*listed(random(40), log), own);
  expect_equal(own, whole);
  EXPECT_EQ(log.told, log.asked);
  EXPECT_EQ(log.told, random(40));
}

TEST_F(Proposers, AStudyThatGoesOnTellsWhatItHoldsAndMeasuresTheRest) {
  Study whole = study("whole"), parts = study("parts");
  Log log;
  run(*listed(random(30), log), whole);
  for (const size_t most : {10u, 17u}) {
    Log some;
    run(*listed(random(30), some), parts, most);
    EXPECT_EQ(parts.trials().size(), most);
  }
  Log rest;
  run(*listed(random(30), rest), parts);
  expect_equal(parts, whole);
  EXPECT_EQ(rest.told, log.told);
  EXPECT_EQ(rest.losses, log.losses);
}

TEST_F(Proposers, EvaluationsBoundThePlansThatAreMeasured) {
  Study result = study("bounded");
  Log log;
  std::vector<Plan> plans = random(30);
  plans.insert(plans.begin() + 1, plans[0]);  // is told twice, measured once
  const std::vector<Plan> first(plans.begin(), plans.begin() + 11);
  run(*listed(plans, log, {.evaluations = 10}), result);
  EXPECT_EQ(std::ranges::count(result.trials(), Part::kSearch, &Trial::part), 10);
  EXPECT_EQ(log.told, first);
}

TEST_F(Proposers, AFailureIsToldAndNotReported) {
  Study result = study("failing");
  Log log;
  const auto strategy = listed(random(12), log);
  for (auto proposals = strategy->next(result); !proposals.empty(); proposals = strategy->next(result))
    for (const Proposal& proposal : proposals) {
      Trial trial = problem_.trial(proposal);
      if (proposal.plan == random(12)[4]) trial.measurement.reset(), trial.failure = "[load] refused";
      result.append(std::move(trial));
    }
  ASSERT_EQ(log.told, random(12));
  EXPECT_TRUE(std::isinf(log.losses[4]));
  for (const Trial& trial : result.trials()) EXPECT_TRUE(trial.part == Part::kSearch || trial.measurement);
}

TEST_F(Proposers, OneThatRepeatsItselfComesToAnEnd) {
  struct Stuck : Proposer {
    explicit Stuck(Plan p) : plan(std::move(p)) {}
    std::vector<Plan> ask() override { return {plan}; }
    void tell(const Trial&) override {}
    Plan plan;
  };
  Study result = study("stuck");
  run(*make_strategy(std::make_unique<Stuck>(random(1)[0]), problem_.space()), result);
  EXPECT_EQ(result.trials().size(), 2u);  // on the search samples, and for the report
}

TEST_F(Proposers, APlanThatIsNotOfTheSpaceIsRefused) {
  Study result = study("wrong");
  for (const Plan& plan :
       {Plan{.schemes = {{"conv100", Scheme::kInt8Dynamic}}}, Plan{.schemes = {{"x", Scheme::kInt8}}}}) {
    Log log;
    try {
      listed({plan}, log)->next(result);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUsage);
    }
  }
}

// Measured on the search samples already: what is reported is of its front too.
TEST_F(Proposers, ATaskMetricOfTheSearchSamplesChoosesWhatIsReported) {
  Study result = study("metric");
  Log log;
  const auto strategy = listed(random(30), log, {.objectives = {"accuracy", "size"}, .front = 6});
  std::optional<double> best;
  std::set<std::string> reported;
  std::string wanted;
  for (auto proposals = strategy->next(result); !proposals.empty(); proposals = strategy->next(result))
    for (const Proposal& proposal : proposals) {
      Trial trial = problem_.trial(proposal);
      // Of a mind of its own: more layers in int4 are better.
      const double accuracy = static_cast<double>(std::ranges::count(trial.plan.schemes, Scheme::kInt4Weights,
                                                                     &std::pair<const LayerId, Scheme>::second)) /
                              10;
      trial.measurement->metrics["accuracy"] = accuracy;
      if (!best || accuracy > *best) best = accuracy, wanted = trial.id;
      if (proposal.part == Part::kEvaluation) reported.insert(trial.id);
      result.append(std::move(trial));
    }
  EXPECT_TRUE(reported.contains(wanted));
  EXPECT_LE(reported.size(), 6u);
}

}  // namespace
}  // namespace seqto
