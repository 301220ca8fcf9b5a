#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <set>

#include "seqto/error.h"
#include "synthetic.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using namespace internal;

class Strategies : public ::testing::Test {
 protected:
  Strategies() : folder_(fs::temp_directory_path() / ("seqto_search_" + std::to_string(::getpid()))) {}
  ~Strategies() override { fs::remove_all(folder_); }

  Study study(const std::string& name) {
    return Study::open(folder_ / name / "study.jsonl", {.search_samples = 2 * Synthetic::kSamples});
  }

  fs::path folder_;
};

const std::vector<std::string> kAll{"chain", "dynamic_program", "sensitivity_list", "greedy_revert", "nsga2", "random"};

TEST_F(Strategies, EndWithinTheirBudgetAndWithAFront) {
  const Synthetic problem(20, 1);
  for (const std::string& name : kAll) {
    Study result = study(name);
    search(problem, name, {.evaluations = 100, .front = 12}, result);
    size_t searched = 0, reported = 0;
    std::set<std::pair<std::string, Part>> seen;
    for (const Trial& trial : result.trials()) {
      (trial.part == Part::kEvaluation ? reported : searched) += 1;
      EXPECT_TRUE(seen.insert({trial.id, trial.part}).second) << name << " measures a plan twice";
    }
    EXPECT_LE(searched, 100) << name;
    EXPECT_GE(searched, 40) << name;
    EXPECT_GE(reported, 3) << name;
    EXPECT_LE(reported, 12 + 3) << name;  // three uniform plans
  }
}

// Uniform plans are measured in any case; a strategy that cannot do with so few says how many it needs.
TEST_F(Strategies, HoldAnyLimit) {
  const Synthetic problem(10, 3);
  const auto searched = [&](const std::string& name, int64_t limit) {
    Study result = study(fmt::format("{}_{}", name, limit));
    search(problem, name, {.evaluations = limit, .front = 4}, result);
    return std::ranges::count_if(result.trials(), [](const Trial& t) { return t.part != Part::kEvaluation; });
  };
  std::vector<std::string> names = kAll;
  names.emplace_back("greedy_bits");
  for (const std::string& name : names)
    for (const int64_t limit : {1, 2, 5, 12, 25, 31, 32, 40, 60}) {
      int64_t least = limit;
      try {
        EXPECT_LE(searched(name, limit), name == "chain" ? std::max<int64_t>(3, limit) : limit) << name;
        continue;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kUsage);
        ASSERT_EQ(std::sscanf(error.what(), "[tune] --search-evaluations %*d found; %ld", &least), 1) << error.what();
      }
      ASSERT_GT(least, limit) << name;
      EXPECT_LE(searched(name, least), least) << name;
    }
}

// Latencies that were predicted are corrected while it runs: it then goes on with its moves from what it has found,
// and does not begin the chain again.
TEST_F(Strategies, ChainGoesOnWithMovesWhenLatenciesWereCorrected) {
  const Synthetic problem(12, 5);
  std::string text = "<ir_version: 8, opset_import: [\"\" : 17]> g (float[1] x0) => (float[1] x12) {";
  for (size_t g = 0; g < 12; ++g) text += fmt::format(" [{}] x{} = Relu(x{})", problem.space().layers[g], g + 1, g);
  const Model model = parse_model_text(text + " }");
  double slower = 1;
  SearchSpace space = problem.space();
  space.model = &model;
  space.latency_of = [&](const Plan& plan) {
    double ns = 100;
    for (const auto& [layer, scheme] : plan.schemes)
      ns += scheme == Scheme::kInt4Weights ? -4 * slower : scheme == Scheme::kInt8Weights ? -3 : 0;
    return ns;
  };
  const StrategyOptions options{.objectives = {"kl", "size", "latency"}, .evaluations = 120};
  Study result = study("corrected");
  auto searcher = make_strategy("chain", space, options);
  std::vector<Proposal> proposals = searcher->next(result);
  const auto measure = [&] {
    for (const Proposal& proposal : proposals) result.append(problem.trial(proposal));
  };
  for (; proposals.at(0).step != "swap"; proposals = searcher->next(result)) measure();
  measure();
  slower = -1;
  searcher = make_strategy("chain", space, options);
  int moves = 0;
  for (proposals = searcher->next(result); !proposals.empty(); proposals = searcher->next(result)) {
    for (const Proposal& proposal : proposals)
      if (proposal.part == Part::kSearch) {
        EXPECT_EQ(proposal.step, "swap");
        ++moves;
      }
    measure();
  }
  EXPECT_GT(moves, 0);
}

TEST_F(Strategies, ChainKeepsTimeForWhatComesAfterTheOneInEvaluations) {
  const Synthetic problem(40, 5);
  double spent = 0;
  const StrategyOptions options{.time_spent = [&] { return spent; }};
  Study result = study("short");
  const auto searcher = make_strategy("chain", problem.space(), options);
  std::map<std::string, int> counts;
  for (auto proposals = searcher->next(result, false); !proposals.empty();
       proposals = searcher->next(result, spent >= 1)) {
    for (const Proposal& proposal : proposals) {
      if (proposal.step != "uniform" && proposal.part == Part::kSearch) spent += 0.02, ++counts[proposal.step];
      result.append(problem.trial(proposal));
    }
  }
  EXPECT_GE(counts["one-in"], 25);
  EXPECT_LE(counts["one-in"], 25 + 8);
  EXPECT_GE(counts["chain"], 8);
}

// Without search samples there is time for few candidates: each plan is measured once, for the report, and wherever the
// time ends their sizes are spread.
TEST_F(Strategies, ChainWithoutSearchSamplesMeasuresEachPlanOnce) {
  const Synthetic problem(20, 5);
  const StrategyOptions options{.time_spent = [] { return 0.0; }, .front = 12};
  const auto run = [&](Study& result, size_t most) {
    const auto searcher = make_strategy("chain", problem.space(), options);
    for (auto proposals = searcher->next(result); !proposals.empty(); proposals = searcher->next(result))
      for (const Proposal& proposal : proposals) {
        if (result.trials().size() == most) return;
        result.append(problem.trial(proposal));
      }
  };
  const int64_t half = problem.size({}) / 2;  // as a float16 file that is tuned: nothing in float16 is smaller
  Study whole = Study::open(folder_ / "whole" / "study.jsonl", {.model_size_bytes = half});
  run(whole, 100);
  ASSERT_EQ(whole.trials().size(), 12);
  std::set<int64_t> sizes;
  for (size_t i = 0; i < whole.trials().size(); ++i) {
    const Trial& trial = whole.trials()[i];
    EXPECT_EQ(trial.part, Part::kEvaluation);
    EXPECT_EQ(trial.step, i < 2 ? "uniform" : "chain");
    sizes.insert(trial.measurement->size_bytes);
  }
  EXPECT_EQ(sizes.size(), 12);
  const auto of = [&](size_t i) { return whole.trials()[i].measurement->size_bytes; };
  EXPECT_GT(of(2), of(1));
  EXPECT_LT(of(2), half);

  Study begun = Study::open(folder_ / "begun" / "study.jsonl", {.model_size_bytes = half});
  run(begun, 5);
  run(begun, 100);
  ASSERT_EQ(begun.trials().size(), 12);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(begun.trials()[i].id, whole.trials()[i].id) << i;
}

TEST_F(Strategies, ChainFindsALargeFront) {
  for (uint64_t seed : {1, 2, 3}) {
    const Synthetic problem(20, seed);
    std::map<std::string, double> volume;
    for (const std::string& name : kAll) {
      Study result = study(name + std::to_string(seed));
      search(problem, name, {.evaluations = 100}, result);
      volume[name] = problem.volume(result);
    }
    for (const std::string& name : kAll) {
      // Losses that nearly add up are what a dynamic program is exact for; it spends nothing on fresh samples.
      if (name == "dynamic_program") {
        EXPECT_GT(volume["chain"], 0.98 * volume["dynamic_program"]) << "seed " << seed;
      }
      if (name == "chain" || name == "dynamic_program") continue;
      EXPECT_GT(volume["chain"], volume[name]) << name << ", seed " << seed;
    }
    EXPECT_GT(volume["dynamic_program"], volume["random"]) << seed;
  }
}

TEST_F(Strategies, RacingRunsFewSamplesAndFindsAsLargeAFront) {
  for (const std::string strategy : {"chain", "random"})
    for (uint64_t seed : {5, 6, 7}) {
      const Synthetic problem(20, seed);
      double volume[2];
      int64_t runs[2], candidates = 0;
      for (const bool racing : {false, true}) {
        Study result = study(strategy + std::to_string(seed) + (racing ? "racing" : ""));
        search(problem, strategy, {.evaluations = 100, .racing = racing}, result);
        volume[racing] = problem.volume(result);
        runs[racing] = candidates = 0;
        for (const Trial& t : result.trials())
          if (t.part == Part::kSearch) ++candidates, runs[racing] += std::ssize(t.measurement->samples.at("kl"));
        if (!racing) {
          EXPECT_EQ(runs[racing], candidates * Synthetic::kSamples);
        }
      }
      EXPECT_LT(runs[true], runs[false] / 2) << strategy << ", seed " << seed;
      EXPECT_GT(volume[true], 0.97 * volume[false]) << strategy << ", seed " << seed;
    }
}

// Float16 loses 1e-8 a group here, int4 a million times that: mixtures of float16 and float32 are all alike.
TEST_F(Strategies, ChainSpendsLittleOnWhatLosesNextToNothing) {
  const Synthetic problem(20, 4);
  Study result = study("nothing");
  search(problem, "chain", {.evaluations = 100}, result);
  double worst = 0;
  for (const Trial& t : result.trials()) worst = std::max(worst, t.measurement->losses.kl);
  size_t alike = 0;
  for (const Trial& t : result.trials())
    if ((t.step == "chain" || t.step == "swap") && t.part == Part::kSearch)
      alike += t.measurement->losses.kl < 1e-4 * worst;
  EXPECT_LE(alike, 2u);
}

// A scheme that ruins the model does not hide what lies between int8 and float16.
TEST_F(Strategies, ChainLooksAtSmallLossesBesideRuinousOnes) {
  const Synthetic problem(20, 8, 1000);
  Study result = study("ruinous");
  search(problem, "chain", {.evaluations = 100}, result);
  Plan int8;
  for (const SearchGroup& group : problem.space().groups) int8.schemes[group.layers[0]] = Scheme::kInt8Weights;
  const double mild = problem.loss(int8, Part::kEvaluation);
  size_t between = 0;
  for (const Trial& t : result.trials())
    if (t.part == Part::kEvaluation) {
      const double loss = t.measurement->losses.kl;
      between += loss > 0.003 * mild && loss < 0.1 * mild;
    }
  EXPECT_GE(between, 4u);
}

// What is asked for is looked for: within a bound of the size more is found than by a search that knows of none, and it
// is reported.
TEST_F(Strategies, ChainLooksFirstWithinBounds) {
  double shares = 0;
  for (uint64_t seed : {1, 2, 3, 4, 5}) {
    const Synthetic problem(30, seed);
    const double bound = 0.2 * static_cast<double>(problem.size({}));
    double best[2];
    for (const bool bounded : {false, true}) {
      Study result = study("bound" + std::to_string(seed) + (bounded ? "ed" : ""));
      StrategyOptions options{.evaluations = 150, .front = 12};
      if (bounded) options.max_size_bytes = bound;
      search(problem, "chain", options, result);
      best[bounded] = std::numeric_limits<double>::infinity();
      for (const Trial& t : result.trials())
        if (t.part == Part::kEvaluation && static_cast<double>(t.measurement->size_bytes) <= bound)
          best[bounded] = std::min(best[bounded], t.measurement->losses.kl);
    }
    EXPECT_LE(best[true], 1.02 * best[false]) << "seed " << seed;
    shares += best[true] / best[false] / 5;
  }
  EXPECT_LT(shares, 0.97);
}

// A study that goes on with another bound measures plans that fill that one, too: a batch of them, and what confirms
// and reports them.
TEST_F(Strategies, ChainFillsTheBoundAndTheNextOne) {
  const Synthetic problem(30, 3);
  Study result = study("bounds");
  size_t before = 0;
  for (const double share : {0.2, 0.15, 0.2173}) {
    const double bound = share * static_cast<double>(problem.size({}));
    const size_t trials = search(problem, "chain", {.evaluations = 150, .front = 12, .max_size_bytes = bound}, result);
    if (before > 0) {
      EXPECT_LE(trials, before + 2 * 8 + 12) << share;
    }
    before = trials;
    EXPECT_TRUE(std::ranges::any_of(result.trials(), [&](const Trial& t) {
      const auto size = static_cast<double>(t.measurement->size_bytes);
      return t.part == Part::kSearch && size <= bound && size > 0.995 * bound;
    })) << share;
  }
}

TEST_F(Strategies, AreTheSameAgainAndGoOnWhereTheyStopped) {
  const Synthetic problem(12, 5);
  for (const std::string& name : kAll) {
    const StrategyOptions options{.evaluations = 60, .seed = 3};
    Study whole = study(name);
    search(problem, name, options, whole);

    Study parts = study(name + "_in_parts");
    for (bool over = false; !over;) {  // a new searcher for every batch, of which only a half is done
      const auto searcher = make_strategy(name, problem.space(), options);
      const auto proposals = searcher->next(parts);
      over = proposals.empty();
      for (size_t i = 0; i < (proposals.size() + 1) / 2; ++i) parts.append(problem.trial(proposals[i]));
    }
    std::set<std::string> a, b;
    for (const Trial& trial : whole.trials()) a.insert(trial.id);
    for (const Trial& trial : parts.trials()) b.insert(trial.id);
    // Moves are chosen by what is known, which is less after half a batch: their plans may differ, not their worth.
    if (name != "chain") {
      EXPECT_EQ(a, b) << name;
    }
    EXPECT_NEAR(problem.volume(whole), problem.volume(parts), 0.01) << name;

    Study again = study(name + "_again");
    search(problem, name, options, again);
    ASSERT_EQ(again.trials().size(), whole.trials().size()) << name;
    for (size_t i = 0; i < whole.trials().size(); ++i) EXPECT_EQ(again.trials()[i].id, whole.trials()[i].id) << name;
  }
}

TEST_F(Strategies, WrappingUpReportsWhatWasFound) {
  const Synthetic problem(20, 1);
  for (const std::string& name : kAll) {
    Study result = study(name);
    const auto searcher = make_strategy(name, problem.space(), {.evaluations = 100});
    const size_t wanted = name == "chain" ? 60 : 35;  // beyond its one-in plans, which its uniform ones dominate
    for (size_t searched = 0; searched < wanted;)
      for (const Proposal& proposal : searcher->next(result)) {
        if (proposal.part == Part::kSearch && ++searched > wanted) break;
        result.append(problem.trial(proposal));
      }
    const auto proposals = searcher->next(result, true);
    EXPECT_FALSE(proposals.empty()) << name;
    for (const Proposal& proposal : proposals) EXPECT_EQ(proposal.part, Part::kEvaluation) << name;
  }
}

TEST_F(Strategies, AFailedCandidateIsNoPartOfTheFront) {
  const Synthetic problem(8, 2);
  for (const std::string& name : kAll) {
    Study result = study(name);
    const auto searcher = make_strategy(name, problem.space(), {.evaluations = 40});
    for (auto proposals = searcher->next(result); !proposals.empty(); proposals = searcher->next(result))
      for (const Proposal& proposal : proposals) {
        Trial trial = problem.trial(proposal);
        // The runtime refuses 4 bits in one layer.
        const auto found = trial.plan.schemes.find("conv103");
        if (found != trial.plan.schemes.end() && found->second == Scheme::kInt4Weights) {
          trial.measurement.reset();
          trial.failure = "[load] refused";
        }
        result.append(std::move(trial));
      }
    size_t good = 0;
    for (const Trial& trial : result.trials()) good += trial.part == Part::kEvaluation && trial.measurement;
    EXPECT_GE(good, 3) << name;
  }
}

TEST(FollowedLoss, IsALossOrStandsInForTheMetric) {
  EXPECT_EQ(followed_loss({"size", "mse", "kl"}), "mse");
  EXPECT_EQ(followed_loss({"f1", "size"}), "kl");
  EXPECT_EQ(followed_loss({"size", "mae", "f1"}), "mse");
  EXPECT_EQ(followed_loss({"wer", "latency"}), "kl");
  EXPECT_EQ(followed_loss({"bleu", "latency"}), "nmse");
  EXPECT_EQ(followed_loss({"accuracy", "cosine", "size"}), "cosine");
  EXPECT_EQ(followed_loss({"size"}), "kl");
}

// Plans are found by their kl, but accuracy is of another mind: odd layers in int4 cost none of it. Search trials do
// not hold it.
TEST_F(Strategies, ATaskMetricChoosesWhatIsReported) {
  const Synthetic problem(20, 6);
  const auto accuracy = [](const Plan& plan) {
    int even = 0;
    for (const auto& [layer, scheme] : plan.schemes) even += scheme == Scheme::kInt4Weights && layer.back() % 2 == 0;
    return 1 - 0.01 * even;
  };
  for (const std::string& name : kAll) {
    Study result = study(name);
    const auto searcher =
        make_strategy(name, problem.space(), {.objectives = {"accuracy", "size"}, .evaluations = 100, .front = 9});
    size_t reported = 0;
    for (auto proposals = searcher->next(result); !proposals.empty(); proposals = searcher->next(result))
      for (const Proposal& proposal : proposals) {
        Trial trial = problem.trial(proposal);
        if (trial.part != Part::kSearch) trial.measurement->metrics["accuracy"] = accuracy(trial.plan);
        reported += trial.part == Part::kEvaluation && trial.step != "uniform";
        result.append(std::move(trial));
      }
    EXPECT_GE(reported, 3u) << name;
    EXPECT_LE(reported, 9u) << name;
    if (name != "chain") continue;
    // Of what was confirmed, the report has the best accuracy at least size.
    Point best{1, 1e18}, found = best;
    for (const Trial& t : result.trials()) {
      if (t.part == Part::kSearch || t.plan.schemes.empty()) continue;
      Point& point = t.part == Part::kEvaluation ? found : best;
      point = std::min(point, {1 - accuracy(t.plan), static_cast<double>(problem.size(t.plan))});
    }
    EXPECT_LE(found, best);
  }
}

// Choices of one scheme that cost the same: what each group loses by them on its own decides.
TEST_F(Strategies, ChainChoosesFieldsForEachGroup) {
  const DetailedScheme plain(Scheme::kInt8), other(Scheme::kInt8, {.method = "mse"});
  SearchSpace space;
  for (const std::string name : {"a", "b", "c", "d"})
    space.groups.push_back({.layers = {name},
                            .choices = {{},
                                        {.schemes = {{name, Scheme::kInt8}}},
                                        {.schemes = {{name, Scheme::kInt8}}, .options = {{name, other.fields}}}},
                            .schemes = {{}, plain, other}});
  space.size_of = [](const Plan& plan) { return 100 - static_cast<int64_t>(plan.schemes.size()); };
  const auto loss = [](const Plan& plan) {
    double sum = 0;
    for (const auto& [layer, scheme] : plan.schemes) sum += plan.options.contains(layer) == (layer > "b") ? 1 : 5;
    return sum;
  };
  Study result = study("fields");
  const auto searcher = make_strategy("chain", space, {.evaluations = 20, .racing = false});
  std::vector<Plan> smallest;
  for (auto proposals = searcher->next(result); !proposals.empty(); proposals = searcher->next(result))
    for (const Proposal& proposal : proposals) {
      Trial trial{.id = proposal.plan.hash(), .plan = proposal.plan, .part = proposal.part};
      trial.measurement.emplace();
      trial.measurement->losses.kl = loss(proposal.plan);
      trial.measurement->size_bytes = space.size_of(proposal.plan);
      if (proposal.part == Part::kEvaluation && proposal.plan.schemes.size() == 4 && proposal.step != "uniform")
        smallest.push_back(proposal.plan);
      result.append(std::move(trial));
    }
  ASSERT_EQ(smallest.size(), 1u) << "of plans of one size only the best is worth the report's samples";
  for (const char* layer : {"a", "b"}) EXPECT_EQ(detailed_scheme(smallest[0], layer), plain) << layer;
  for (const char* layer : {"c", "d"}) EXPECT_EQ(detailed_scheme(smallest[0], layer), other) << layer;
}

// What NNCF's loop does with these losses: of the three in int8, the second return makes it worse, is taken back, and
// what is ranked first then stays though it makes it worse than what was taken back.
TEST_F(Strategies, GreedyRevertTakesBackWhatMakesItWorse) {
  SearchSpace space;
  for (const char* name : {"a", "b", "c"})
    space.groups.push_back({.layers = {name},
                            .choices = {{}, {.schemes = {{name, Scheme::kInt8}}}},
                            .schemes = {Scheme::kFloat32, Scheme::kInt8}});
  space.size_of = [](const Plan& plan) { return 100 - static_cast<int64_t>(plan.schemes.size()); };
  const std::map<std::string, double> losses{{"abc", 10}, {"bc", 7}, {"ac", 4}, {"ab", 8},
                                             {"c", 6},    {"a", 5},  {"", 0},   {"b", 9}};
  Study result = study("nncf");
  const auto searcher = make_strategy("greedy_revert", space, {.evaluations = 100});
  std::vector<std::string> asked;
  for (auto proposals = searcher->next(result); !proposals.empty(); proposals = searcher->next(result))
    for (const Proposal& proposal : proposals) {
      Trial trial{.id = proposal.plan.hash(), .plan = proposal.plan, .part = proposal.part};
      std::string key;
      for (const auto& [layer, scheme] : proposal.plan.schemes) key += layer;
      trial.measurement.emplace().size_bytes = space.size_of(proposal.plan);
      trial.measurement->losses.kl = losses.at(key);
      if (trial.part == Part::kSearch) asked.push_back(key);
      result.append(std::move(trial));
    }
  // Ranked: b 4, a 7, c 8. Without b: 4. Without a as well: 6, taken back; a and c ranked again over "ac": c 5, a 6, so
  // c goes, 5 being less than 6; then a, the last.
  EXPECT_EQ(asked, (std::vector<std::string>{"abc", "ab", "ac", "bc", "c", "a", ""}));
}

}  // namespace
}  // namespace seqto
