#include "orchestrator/study/summarize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "orchestrator/summary_of.h"
#include "seqto/error.h"
#include "seqto/gate.h"
#include "seqto/plan.h"
#include "seqto/tune.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using namespace internal;
using namespace std::string_literals;

TEST(Summarize, FloatDominatesUselessCandidatesAndIsNotListed) {
  Trial failed;
  failed.id = "failed";
  failed.failure = "it does not run";
  const Summary summary = summary_of(
      "front", {trial("float", 1000, 0), trial("full", 250, 1.0), trial("middle", 300, 0.4), trial("good", 500, 0.1),
                trial("dominated", 600, 0.2), trial("larger than float", 1100, 0.01), failed});
  ASSERT_EQ(summary.front.size(), 3u);
  EXPECT_EQ(summary.front[0].trial.id, "full");
  EXPECT_EQ(summary.front[2].trial.id, "good");
  EXPECT_NEAR(summary.front[2].size_reduction_kept, 500.0 / 750.0, 1e-12);
  EXPECT_EQ(summary.fully_quantized.size_reduction_kept, 1.0);
  EXPECT_EQ(summary.top.front(), "middle");  // nearest to the best of both, each scaled over the front
  EXPECT_EQ(summary.selected, "middle");     // the smallest that changes no answers
  EXPECT_EQ(summary.trials.size(), 7u);
  // Scaled: `full` (1, 0) adds nothing, `middle` is (0.4, 1/15), `good` (0.1, 1/3).
  EXPECT_NEAR(summary.hypervolume, 0.3 * (2.0 / 3.0) + 0.6 * (14.0 / 15.0), 1e-12);
}

TEST(Summarize, CandidatesHaveNumbersAlongTheFront) {
  const Summary summary =
      summary_of("names", {trial("float", 1000, 0), trial("published", 280, 0.9), trial("full", 250, 1.0),
                           trial("b111111111111111", 500, 0.1), trial("a222222222222222", 300, 0.4),
                           trial("c333333333333333", 600, 0.2)});
  EXPECT_EQ(summary.baseline.name, "float");
  EXPECT_EQ(summary.fully_quantized.name, "ort-int8");
  std::vector<std::string> front, all;
  for (const SummaryPoint& p : summary.front) front.push_back(p.name);
  for (const SummaryPoint& p : summary.trials) all.push_back(p.name);
  EXPECT_EQ(front, (std::vector<std::string>{"int8", "1", "2"}));
  EXPECT_EQ(all, (std::vector<std::string>{"float", "ort-int8", "int8", "2", "1", "c3333333"}));
}

// DIR:NAME takes every candidate that has a file: int8 too, where onnxruntime's model or a smaller one beats it.
TEST(Summarize, CandidatesOffTheFrontAreNamedInTheSummary) {
  const fs::path dir = fs::temp_directory_path() / "seqto_summarize_test_others";
  fs::remove_all(dir);
  fs::create_directories(dir / "models");
  for (const char* id : {"full", "published", "b111111111111111"})
    std::ofstream(dir / "models" / (id + ".onnx"s)) << id;
  {
    Study study = Study::open(dir / "study.jsonl", {});
    for (const Trial& t : {trial("float", 1000, 0), trial("published", 280, 0.9), trial("full", 310, 1.0),
                           trial("b111111111111111", 300, 0.4), trial("c333333333333333", 600, 0.5)})
      study.append(t);
    std::ofstream(dir / "summary.json") << summary_to_json(summarize(study, dir, {{"kl", "size"}}));
  }
  EXPECT_EQ(files_in_study(dir, "int8").model, dir / "models/full.onnx");
  EXPECT_EQ(files_in_study(dir, "full").model, dir / "models/full.onnx");
  EXPECT_EQ(files_in_study(dir, "ort-int8").model, dir / "models/published.onnx");
  EXPECT_EQ(files_in_study(dir, "1").model, dir / "models/b111111111111111.onnx");
  EXPECT_EQ(measured_in_study(dir, "int8").figures.at("size_bytes").value, 310);
  EXPECT_THROW(files_in_study(dir, "c3333333"), Error);  // it has no file
  fs::remove_all(dir);
}

// A network of many small layers: scales and zero points weigh more than its weights lose.
TEST(Summarize, NothingIsKeptOfNoReduction) {
  const Summary summary =
      summary_of("larger", {trial("float", 1000, 0), trial("full", 1200, 1.0), trial("small", 900, 0.1)});
  ASSERT_EQ(summary.front.size(), 1u);
  EXPECT_EQ(summary.front[0].size_reduction_kept, 0);
  ASSERT_EQ(summary.notes.size(), 1u);
  EXPECT_EQ(summary.notes[0], "int8 has 1.20 kB, float 1.00 kB: there is no size reduction to keep");
}

TEST(Summarize, OfThreeObjectivesTheOutlineIsOfTwo) {
  fs::path dir = fs::temp_directory_path() / "seqto_summarize_outline_test";
  fs::remove_all(dir);
  fs::create_directories(dir);
  Study study = Study::open(dir / "study.jsonl", {});
  const auto add = [&](const std::string& id, int64_t size_bytes, double kl, int64_t ns, std::vector<double> right) {
    Trial t = trial(id, size_bytes, kl);
    t.measurement->latency.median_ns = ns;
    t.measurement->samples["top1"] = std::move(right);
    study.append(t);
  };
  add("float", 1000, 0, 100, {1, 1, 1, 1, 1, 1, 1, 1});
  add("full", 250, 1.0, 50, {0, 0, 0, 0, 0, 0, 1, 1});
  add("small", 300, 0.2, 90, {1, 1, 1, 1, 1, 1, 1, 0});
  add("fast", 400, 0.5, 40, {1, 1, 1, 1, 1, 1, 1, 1});
  Ending ending;
  ending.objectives = {"kl", "size", "latency"};
  Summary summary = summarize(study, dir, ending);
  ASSERT_EQ(summary.front.size(), 3u);
  EXPECT_EQ(summary.outline, (std::vector<std::string>{"full", "small"}));
  EXPECT_FALSE(summary.baseline.mcnemar);
  EXPECT_DOUBLE_EQ(*summary.fully_quantized.mcnemar, 2 * std::pow(0.5, 6));  // 6 to 0
  EXPECT_DOUBLE_EQ(*summary.front[1].mcnemar, 1);                            // 1 to 0: nothing is known
  EXPECT_DOUBLE_EQ(*summary.front[2].mcnemar, 1);
  EXPECT_NE(summary_to_json(summary).find("\"mcnemar\": 0.03125"), std::string::npos);
  fs::remove_all(dir);
}

std::vector<std::string> ids(const std::vector<SummaryPoint>& points) {
  std::vector<std::string> result;
  for (const SummaryPoint& p : points) result.push_back(p.trial.id);
  return result;
}

// What is shown is what points are chosen by: not the figures that the search saw before they were timed again.
// A column holds times of one moment: a point that was not timed beside the others shows none.
TEST(Summarize, LatenciesOfOtherMomentsAreNotShown) {
  const std::vector<Trial> trials{timed_trial("float", 1000, 0, 1000), timed_trial("full", 250, 1.0, 500),
                                  timed_trial("timed", 400, 0.5, 400), timed_trial("later", 500, 0.1, 30)};
  Ending ending{{"kl", "size"}};
  for (const char* id : {"float", "full", "timed"}) ending.latencies["cpu"][id] = {600, 600, 600};
  const Summary summary = summary_of("moments", trials, ending);
  EXPECT_EQ(ids(summary.front), (std::vector<std::string>{"full", "timed", "later"}));
  EXPECT_EQ(summary.front[1].trial.measurement->latency.median_ns, 600);
  EXPECT_EQ(summary.front[2].trial.measurement->latency.median_ns, 0);
  EXPECT_NE(summary_to_json(summary).find("\"latency_ns\": null"), std::string::npos);
  // Where it is an objective, no time is not a short one.
  ending.objectives = {"kl", "size", "latency"};
  EXPECT_EQ(ids(summary_of("untimed", trials, ending).front), (std::vector<std::string>{"full", "timed"}));
}

// The published strategy has objectives of its own; what is shown of its front is not dominated either.
TEST(Summarize, NoShownPointIsDominatedAsShown) {
  std::vector<Trial> trials{timed_trial("float", 1000000, 0, 1000), timed_trial("full", 250000, 0, 500)};
  for (int i = 0; i < 40; ++i) {
    trials.push_back(timed_trial("t" + std::to_string(i), 300000 + 7919 * i % 600000, 0, 400 + 37 * i % 500));
    trials.back().measurement->losses.rank_dissimilarity = 0.001 * (1 + (i * 53 + 60) % 97);
    trials.back().measurement->losses.kl = 0.01 * (1 + (i * 29 + 50) % 89);
  }
  trials[1].measurement->losses.rank_dissimilarity = trials[1].measurement->losses.kl = 0.9;
  const std::vector<std::vector<std::string>> searches{
      {"kl", "size"}, {"kl", "size", "latency"}, {"rank_dissimilarity", "size"}};
  for (const auto& objectives : searches) {
    Ending ending{objectives};
    for (size_t i = 0; i < trials.size(); ++i) {
      const auto ns = static_cast<int64_t>(300 + 61 * i % 400);
      ending.latencies["cpu"][trials[i].id] = {ns, ns, ns};
    }
    const Summary summary = summary_of("dominated", trials, ending);
    ASSERT_GT(summary.front.size(), 3u);
    const auto shown = [&](const SummaryPoint& p) {
      Point figures;
      for (const std::string& name : objectives) figures.push_back(objective(*p.trial.measurement, name));
      return figures;
    };
    for (const SummaryPoint& a : summary.front)
      for (const SummaryPoint& b : summary.front) EXPECT_FALSE(dominates(shown(b), shown(a))) << a.name;
    const std::vector<std::string> front = ids(summary.front);
    for (const std::string& id : summary.top) EXPECT_TRUE(std::ranges::count(front, id)) << id;
    EXPECT_TRUE(std::ranges::count(front, summary.selected));
  }
}

TEST(Summarize, TheFrontIsOfTheFiguresThatAreShown) {
  const std::vector<Trial> trials{
      timed_trial("float", 1000, 0, 1000),      timed_trial("full", 250, 1.0, 500),
      timed_trial("slower now", 400, 0.5, 400), timed_trial("small", 300, 0.4, 900),
      timed_trial("fast", 500, 0.1, 600),       timed_trial("slow by chance", 500, 0.2, 700)};
  Ending ending{{"kl", "size", "latency"}};
  EXPECT_EQ(ids(summary_of("as_trials", trials, ending).front),
            (std::vector<std::string>{"full", "small", "slower now", "fast"}));
  const auto now = [&](const std::string& id, int64_t ns) { ending.latencies["cpu"][id] = {ns, ns, ns}; };
  now("float", 1100), now("full", 520), now("slower now", 950), now("small", 910), now("fast", 601);
  now("slow by chance", 599);
  const Summary summary = summary_of("as_shown", trials, ending);
  EXPECT_EQ(ids(summary.front), (std::vector<std::string>{"full", "small", "fast", "slow by chance"}))
      << "slower now is larger than small, loses more and takes longer; slow by chance is faster than fast";
  EXPECT_EQ(summary.trials.size(), trials.size()) << "it stays a point that was evaluated";
  for (const std::string& id : summary.top) EXPECT_NE(id, "slower now");
  // Of a tie in print (601 and 599 ns are 0.60 us), the full figures decide.
  for (const SummaryPoint& a : summary.front)
    for (const SummaryPoint& b : summary.trials) {
      Point p, q;
      for (const std::string& name : ending.objectives)
        p.push_back(objective(*a.trial.measurement, name)), q.push_back(objective(*b.trial.measurement, name));
      EXPECT_FALSE(dominates(q, p)) << b.trial.id << " dominates " << a.trial.id;
    }
  // Scaled by what is shown of float and full, as the points are.
  Summary as_measured = summary_of(
      "scaled",
      {timed_trial("float", 1000, 0, 1100), timed_trial("full", 250, 1.0, 520), timed_trial("small", 300, 0.4, 910),
       timed_trial("fast", 500, 0.1, 601), timed_trial("slow by chance", 500, 0.2, 599)},
      {ending.objectives});
  EXPECT_DOUBLE_EQ(summary.hypervolume, as_measured.hypervolume);
  EXPECT_EQ(summary.selected, as_measured.selected);
  EXPECT_EQ(summary.top, as_measured.top);
}

TEST(Summarize, EachDeviceHasAFrontOfItsOwnFigures) {
  std::vector<Trial> trials{timed_trial("float", 1000, 0, 1000), timed_trial("full", 250, 1.0, 500),
                            timed_trial("a", 400, 0.5, 400), timed_trial("b", 300, 0.4, 900)};
  for (Trial& t : trials) t.elsewhere["other"] = Outcome{t.measurement, {}};
  Ending ending{{"kl", "size", "latency"}};
  for (const auto& [id, ns] : std::map<std::string, int64_t>{{"float", 1000}, {"full", 500}, {"a", 901}, {"b", 900}})
    ending.latencies["other"][id] = {ns, ns, ns};
  const Summary summary = summary_of("devices", trials, ending);
  EXPECT_EQ(ids(summary.front), (std::vector<std::string>{"full", "b", "a"}));
  ASSERT_EQ(summary.elsewhere.size(), 1u);
  EXPECT_EQ(ids(summary.elsewhere[0].front), (std::vector<std::string>{"full", "b"}));
}

// A runtime that does not run the next step is no reason to lose the summary of the others.
TEST(Summarize, ALimitOnWhatADeviceDoesNotMeasureIsNotMetThere) {
  std::vector<Trial> trials{trial("float", 1000, 0), trial("full", 250, 1.0), trial("a", 400, 0.4)};
  for (Trial& t : trials) {
    t.elsewhere["other"] = Outcome{t.measurement, {}};
    t.measurement->decode_latency = Latency{t.measurement->size_bytes, t.measurement->size_bytes};
  }
  Ending ending{{"kl", "size", "decode_latency"}};
  ending.limits = {{"decode_latency_ratio", 0.5, true, ""}, {"size_ratio", 0.3, true, ""}};
  const Summary summary = summary_of("unmeasured", trials, ending);
  EXPECT_TRUE(std::ranges::all_of(summary.limits, &CheckedLimit::met));
  ASSERT_EQ(summary.elsewhere.size(), 1u);
  const DeviceFront& other = summary.elsewhere[0];
  EXPECT_EQ(other.selected, "full") << "the other limit counts";
  std::map<std::string, bool> met;
  for (const CheckedLimit& c : other.limits) met[c.limit.figure] = c.met;
  EXPECT_EQ(met, (std::map<std::string, bool>{{"decode_latency_ratio", false}, {"size_ratio", true}}));
}

// Behind an encoder and its decoder the next token is timed last, among plans that a summary has named.
TEST(Summarize, ALimitOnWhatIsTimedLastIsNotMetBefore) {
  std::vector<Trial> trials{trial("float", 1000, 0), trial("full", 250, 1.0), trial("a", 400, 0.4)};
  Ending ending{{"kl", "size"}};
  ending.limits = {{"decode_latency_ratio", 0.5, true, ""}};
  const Summary before = summary_of("timed_last", trials, ending);
  EXPECT_EQ(before.selected, summary_of("timed_last", trials).selected);
  ASSERT_EQ(before.limits.size(), 1u);
  EXPECT_FALSE(before.limits[0].met);
  EXPECT_TRUE(std::isnan(before.limits[0].found.value));
  for (const auto& [id, ns] : std::map<std::string, int64_t>{{"float", 1000}, {"full", 400}, {"a", 900}})
    ending.decode_latencies["cpu"][id] = {ns, ns, ns};
  const Summary after = summary_of("timed_last", trials, ending);
  EXPECT_EQ(after.selected, "full");
  EXPECT_TRUE(after.limits[0].met);
}

// Where nothing is smaller than float, float is what the limits are held against.
TEST(Summarize, LimitsCountWhereTheFrontIsEmpty) {
  Ending ending{{"kl", "size"}};
  ending.limits = {{"size_ratio", 0.5, true, ""}, {"kl", 0.1, true, ""}};
  const Summary summary = summary_of("no_front", {trial("float", 1000, 0), trial("full", 1200, 1.0)}, ending);
  EXPECT_TRUE(summary.front.empty());
  EXPECT_EQ(summary.selected, "float");
  ASSERT_EQ(summary.limits.size(), 2u);
  EXPECT_FALSE(summary.limits[0].met);
  EXPECT_TRUE(summary.limits[1].met);
}

TEST(Summarize, AnObjectiveThatAReferenceLacksAddsNoVolume) {
  std::vector<Trial> trials{trial("float", 1000, 0), trial("full", 250, 1.0), trial("a", 400, 0.4)};
  const double volume = summary_of("volume", trials).hypervolume;
  for (Trial& t : trials)
    if (t.id != "full") t.measurement->decode_latency = Latency{100, 100, 100};
  EXPECT_DOUBLE_EQ(summary_of("volume", trials, {{"kl", "size", "decode_latency"}}).hypervolume, volume);
}

// A first front's models/selected.onnx stays where the run was killed: it is none of the study's points.
TEST(Summarize, OnlyTheSelectedPointsFileIsNamed) {
  const fs::path dir = fs::temp_directory_path() / "seqto_summarize_test_selected";
  fs::remove_all(dir);
  fs::create_directories(dir / "models");
  for (const char* name : {"first.onnx", "selected.onnx"}) std::ofstream(dir / "models" / name) << "first";
  Study study = Study::open(dir / "study.jsonl", {});
  for (const Trial& t : {trial("float", 1000, 0), trial("full", 250, 0.1)}) study.append(t);
  EXPECT_EQ(summarize(study, dir, {{"kl", "size"}}).selected_file, "");
  std::ofstream(dir / "models/full.onnx") << "full";
  EXPECT_EQ(summarize(study, dir, {{"kl", "size"}}).selected_file, "models/selected.onnx");
  fs::remove_all(dir);
}

// What may be on the front once all are timed needs a file, on whichever device.
TEST(Summarize, AllThatAreTimedAgainCanBeReported) {
  const fs::path dir = fs::temp_directory_path() / "seqto_summarize_test_reportable";
  fs::remove_all(dir);
  fs::create_directories(dir);
  Study study = Study::open(dir / "study.jsonl", {});
  Trial searched = timed_trial("searched", 200, 0.1, 100), failed;
  searched.part = Part::kSearch;
  failed.id = "failed", failed.failure = "it does not run";
  for (const Trial& t : {timed_trial("float", 1000, 0, 1000), timed_trial("full", 250, 1.0, 500), searched, failed,
                         timed_trial("slow by chance", 500, 0.2, 700), timed_trial("fast", 500, 0.1, 600)})
    study.append(t);
  EXPECT_EQ(reportable(study, {"kl", "size"}, true), (std::vector<size_t>{5}));
  EXPECT_EQ(reportable(study, {"kl", "size", "latency"}, true), (std::vector<size_t>{4, 5}));
  EXPECT_EQ(reportable(study, {"kl", "size", "latency"}, false), (std::vector<size_t>{5}));
  fs::remove_all(dir);
}

TEST(Tune, InvariantsHoldOnTheSample) {
  fs::path dir = fs::temp_directory_path() / "seqto_tune_test";
  fs::remove_all(dir);
  TuneOptions options;
  fs::path sample = fs::path(SEQTO_SOURCE_DIR) / "examples" / "digits";
  options.model = sample / "model.onnx";
  options.data = sample / "digits.npz";
  options.calibration_samples = 32;
  options.evaluation_samples = 64;
  options.output = dir;
  options.search.objectives = {"kl", "size"};
  Summary summary = tune(options);
  std::set<std::string> ids;
  for (const SummaryPoint& p : summary.trials) EXPECT_TRUE(ids.insert(p.trial.id).second) << p.trial.id;
  ASSERT_FALSE(summary.front.empty());
  // The view of single layers: every node, real counts, a reason for each layer of each point.
  EXPECT_EQ(summary.wiring.size(), summary.layers.size());
  EXPECT_EQ(summary.value_samples, 32);
  int64_t rounded = 0;
  for (const auto& [name, values] : summary.values) {
    EXPECT_LE(values.histogram.counts.size(), static_cast<size_t>(kMostBins)) << name;
    EXPECT_EQ(values.histogram.edges.size(), values.histogram.counts.size() + 1) << name;
    EXPECT_LE(values.histogram.edges.front(), values.lowest) << name;
    EXPECT_GE(values.histogram.edges.back(), values.highest) << name;
    rounded += values.quantized.has_value();
  }
  EXPECT_GT(rounded, 3);
  for (const SummaryPoint& p : summary.front) {
    ASSERT_TRUE(summary.explained.contains(p.trial.id));
    EXPECT_EQ(summary.explained.at(p.trial.id).size(), summary.layers.size());
  }
  for (const SummaryPoint& p : summary.front) {
    ASSERT_FALSE(p.file.empty());
    EXPECT_EQ(static_cast<int64_t>(fs::file_size(dir / p.file)), p.trial.measurement->size_bytes);
    EXPECT_NO_THROW(check_model(load_model(dir / p.file)));
    for (const SummaryPoint& other : summary.trials) {
      Point a{other.trial.measurement->losses.kl, static_cast<double>(other.trial.measurement->size_bytes)};
      Point b{p.trial.measurement->losses.kl, static_cast<double>(p.trial.measurement->size_bytes)};
      EXPECT_FALSE(dominates(a, b)) << other.trial.id << " dominates " << p.trial.id;
    }
  }
  EXPECT_EQ(summary.baseline.trial.measurement->losses.kl, 0);
  Summary redrawn = report(dir);
  EXPECT_EQ(summary_to_json(redrawn), summary_to_json(summary));
  fs::remove_all(dir);
}

TEST(ExpandPatterns, GlobsAndOpTypes) {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] z) { y = Relu(x) z = Neg(y) })");
  model.graph.nodes[0].name = "block/relu";
  model.graph.nodes[1].name = "block/neg";
  EXPECT_EQ(expand_patterns({"*relu"}, model), std::vector<LayerId>{"block/relu"});
  EXPECT_EQ(expand_patterns({"op:Neg", "block*"}, model).size(), 2u);
  EXPECT_TRUE(expand_patterns({}, model).empty());
  try {
    expand_patterns({"block/rely"}, model);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("block/relu"), std::string::npos);
  }
}

}  // namespace
}  // namespace seqto
