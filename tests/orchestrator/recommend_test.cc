#include "orchestrator/study/recommend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/summary_of.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using namespace internal;

Trial changing(const std::string& id, int64_t size_bytes, int64_t ns, double changed, Interval interval) {
  Trial t = timed_trial(id, size_bytes, changed, ns);
  t.measurement->losses.top1_disagreement = changed;
  t.measurement->intervals["top1_disagreement"] = interval;
  return t;
}

TEST(Recommend, SelectedIsTheCheapestThatIsAsGoodAsFloat) {
  const std::vector<Trial> trials{timed_trial("float", 1000, 0, 100), changing("full", 250, 40, 0.3, {0.2, 0.4}),
                                  changing("surely not", 260, 40, 0.008, {0.003, 0.019}),
                                  changing("small", 300, 50, 0.002, {0, 0.006}),
                                  changing("fast", 330, 40, 0.001, {0, 0.004})};
  EXPECT_EQ(summary_of("smallest", trials, {{"kl", "size"}}).selected, "small");
  const Summary both = summary_of("both", trials, {{"kl", "size", "latency"}});
  EXPECT_EQ(both.selected, "fast");  // 0.33 * 0.4 is less than 0.3 * 0.5
  EXPECT_EQ(both.judged_by, "top1_disagreement");
  EXPECT_EQ(answer(both), "Use candidate 3: 3.0 x smaller, 2.5 x faster, 0.1 % of the answers change (0.0 to 0.4 %).");
  EXPECT_EQ(summary_of("loose", trials, {.objectives = {"kl", "size"}, .tolerance = 0.02}).selected, "surely not");
  const Summary none = summary_of("none", trials, {.objectives = {"kl", "size"}, .tolerance = 0.001});
  EXPECT_EQ(none.selected, "fast");  // the least loss
  EXPECT_FALSE(none.as_good_as_float);
  EXPECT_TRUE(answer(none).starts_with("No candidate is surely within 0.1 % of float; the nearest is candidate 3:"));
}

// A bootstrap of one changed sample among 400 ends at 0.9 %, the exact interval at 1.4 %.
TEST(Recommend, FewChangedSamplesLeaveMorePossibleThanABootstrapSays) {
  std::vector<Trial> trials{timed_trial("float", 1000, 0, 100), changing("full", 250, 100, 0.0025, {0, 0.009}),
                            changing("none", 300, 100, 0, {0, 0})};
  for (const size_t i : {1, 2}) {
    auto& changed = trials[i].measurement->samples["top1_disagreement"];
    changed.assign(400, 0);
    if (i == 1) changed[7] = 1;
  }
  const Summary summary = summary_of("few changed", trials, {{"kl", "size"}});
  EXPECT_EQ(summary.selected, "none");
  EXPECT_NEAR(summary.front[0].trial.measurement->intervals.at("top1_disagreement").high, 0.01385, 1e-5)
      << "as summary.json has it, for check --confident";
  EXPECT_NEAR(summary.front[1].trial.measurement->intervals.at("top1_disagreement").high, 0.00918, 1e-5);
}

// The spread of an error on one sample is unknown, on two nearly.
TEST(Recommend, ErrorsOfFewSamplesAreNotSure) {
  std::vector<Trial> trials{timed_trial("float", 1000, 0, 100), timed_trial("full", 250, 0.1, 100)};
  const auto as_good = [&](int64_t count) {
    for (Trial& t : trials) {
      const double found = t.id == "float" ? 0 : 0.004;
      t.measurement->losses.nmse = found;
      t.measurement->samples["nmse"].assign(static_cast<size_t>(count), found);
      t.measurement->intervals["nmse"] = {0.9 * found, 1.1 * found};
    }
    return summary_of("few samples", trials, {{"nmse", "size"}}).as_good_as_float;
  };
  EXPECT_FALSE(as_good(1));
  EXPECT_TRUE(as_good(40));
}

// Too few samples to show that no class changes, of outputs among which classes are the least.
TEST(Recommend, AnErrorWithinTheToleranceIsSmallEnough) {
  std::vector<Trial> trials{timed_trial("float", 1000, 0, 100), changing("full", 250, 100, 0, {0, 0.04}),
                            changing("small", 300, 100, 0, {0, 0.04}), changing("half", 500, 100, 0, {0, 0.04}),
                            changing("copy", 1010, 99, 0, {0, 0.04})};
  const double errors[] = {0, 0.02, 2e-5, 1e-8, 1e-14};
  for (size_t i = 0; i < trials.size(); ++i) {
    trials[i].measurement->losses.nmse = errors[i];
    trials[i].measurement->metrics["top1"] = 0.9;  // the labels are known: answers are judged by classes
  }
  const Summary summary = summary_of("errors", trials, {{"nmse", "size", "latency"}});
  EXPECT_FALSE(summary.as_good_as_float);
  EXPECT_EQ(summary.selected, "small");
  const auto& front = summary.front;
  EXPECT_TRUE(std::ranges::none_of(front, [](const SummaryPoint& p) { return p.trial.id == "copy"; }))
      << "neither smaller than float nor surely faster";
}

TEST(Recommend, OfTwoTimesSizeCountsWhereItIsAnObjective) {
  std::vector<Trial> trials{timed_trial("float", 1000, 0, 100), changing("full", 250, 40, 0.3, {0.2, 0.4}),
                            changing("small", 300, 50, 0, {0, 0.004}), changing("fast", 900, 50, 0, {0, 0.004})};
  for (Trial& t : trials) t.measurement->decode_latency = Latency{50, 50, 50};
  trials[0].measurement->decode_latency = Latency{100, 100, 100};
  trials[3].measurement->decode_latency = Latency{30, 30, 30};
  EXPECT_EQ(summary_of("by step", trials, {{"kl", "decode_latency"}}).selected, "fast");
  EXPECT_EQ(summary_of("by step and size", trials, {{"kl", "size", "decode_latency"}}).selected, "small");
}

// On a noisy device the fastest of many is one that was lucky: it is no reason to give up a third of the size.
TEST(Recommend, TimesThatAreNotToldApartCostTheSame) {
  std::vector<Trial> trials{timed_trial("float", 1000, 0, 100), changing("full", 250, 270, 0.3, {0.2, 0.4}),
                            changing("small", 300, 121, 0.002, {0, 0.006}), changing("lucky", 980, 85, 0, {0, 0.004})};
  const auto summary = [&](const std::string& name, Interval of_small, Interval of_lucky) {
    trials[2].measurement->latency.over_float = {1.21, of_small};
    trials[3].measurement->latency.over_float = {0.85, of_lucky};
    return summary_of(name, trials, {{"kl", "size", "latency"}});
  };
  const Summary noisy = summary("noisy", {0.98, 1.4}, {0.7, 1.06});
  EXPECT_EQ(noisy.selected, "small");
  EXPECT_TRUE(answer(noisy).starts_with("Use candidate 1: 3.3 x smaller, as fast,")) << answer(noisy);
  EXPECT_NE(summary_table(noisy).find("latency of 1: 1.21 x float's (0.98 to 1.40): not told apart"),
            std::string::npos);
  const std::string once = summary_table(summary("once", {0, 1000}, {0, 1000}));
  EXPECT_NE(once.find("latency of 1: 1.21 x float's in too few rounds: not told apart"), std::string::npos) << once;
  const int64_t fastest = std::exchange(trials[2].measurement->latency.p10_ns, trials[0].measurement->latency.p10_ns);
  const std::string busy = summary_table(summary("busy", {1.04, 1.4}, {0.7, 1.06}));
  EXPECT_NE(busy.find("1.21 x float's (1.04 to 1.40), of the fastest runs 1.00 x: not told apart"), std::string::npos)
      << busy;
  trials[2].measurement->latency.p10_ns = fastest;
  const Summary quiet = summary("quiet", {1.19, 1.23}, {0.84, 0.86});
  EXPECT_EQ(quiet.selected, "lucky");  // the small one is slower than float
  EXPECT_TRUE(answer(quiet).starts_with("Use candidate 2: of the same size, 1.2 x faster,")) << answer(quiet);
  EXPECT_NE(summary_to_json(quiet).find("\"over_float\""), std::string::npos);
}

// Resamples of samples that agree know no spread: what so few of them leave possible counts.
TEST(Recommend, FewSamplesCannotShowThatNothingChanges) {
  const auto with_samples = [](size_t count) {
    std::vector<Trial> trials{trial("float", 1000, 0), trial("full", 250, 0.9), trial("one", 300, 0.1),
                              trial("larger", 400, 0.05)};
    for (Trial& t : trials) {
      const bool changes = t.id == "full";
      t.measurement->samples["top1_disagreement"] = std::vector<double>(count, changes);
      t.measurement->intervals["top1_disagreement"] = {changes ? 1.0 : 0, changes ? 1.0 : 0};
    }
    return trials;
  };
  const Summary many = summary_of("many", with_samples(472));
  EXPECT_TRUE(many.as_good_as_float);
  EXPECT_EQ(many.selected, "one");
  EXPECT_EQ(answer(many), "Use candidate 1: 3.3 x smaller, 0.0 % of the answers change (0.0 to 0.8 %).");
  const Summary few = summary_of("few", with_samples(60));
  EXPECT_FALSE(few.as_good_as_float);
  EXPECT_EQ(few.selected, "larger");  // both change nothing; it has the least KL
  EXPECT_EQ(answer(few),
            "No candidate is surely within 1.0 % of float; the nearest is candidate 2: 2.5 x smaller, 0.0 % of the "
            "answers change (0.0 to 6.0 %). 60 samples cannot show 1.0 %: give 368 samples or more, with another "
            "--output, or --tolerance 6%.");
  const std::string batches =
      answer(summary_of("batches", with_samples(60), {.objectives = {"kl", "size"}, .items_in_sample = 4}));
  EXPECT_NE(batches.find(" 60 batches of 4 samples cannot show 1.0 %: give 1472 samples or more,"), std::string::npos)
      << batches;
  std::vector<Trial> windows = with_samples(472);  // of 59 recordings
  for (Trial& t : windows)
    for (int64_t i = 0; i < 472; ++i) t.measurement->blocks.push_back(i / 8);
  const Summary alike = summary_of("alike", windows);
  EXPECT_FALSE(alike.as_good_as_float);
  EXPECT_EQ(answer(alike),
            "No candidate is surely within 1.0 % of float; the nearest is candidate 2: 2.5 x smaller, 0.0 % of the "
            "answers change (0.0 to 6.1 %). 472 samples, alike within 59 files or parts of files, cannot show 1.0 %: "
            "give samples of more files, with another --output, or --tolerance 6.1%.");
  std::vector<Trial> changing_all{trial("float", 1000, 0), trial("full", 250, 0.9)};
  changing_all[0].measurement->samples["top1_disagreement"] = std::vector<double>(16, 0);
  changing_all[1].measurement->samples["top1_disagreement"] = std::vector<double>(16, 0.3);
  changing_all[1].measurement->losses.top1_disagreement = 0.3;
  changing_all[1].measurement->intervals["top1_disagreement"] = {0.2, 0.4};
  const std::string surely_worse = answer(summary_of("worse", changing_all));
  EXPECT_EQ(surely_worse.find("cannot show"), std::string::npos) << surely_worse;
}

// A trial times a few steps, at another moment than float's: where there is no time for rounds, nothing is told.
TEST(Recommend, TheNextTokenIsToldOnlyInRoundsWithFloat) {
  std::vector<Trial> trials{timed_trial("float", 1000, 0, 100), changing("full", 250, 90, 0.3, {0.2, 0.4}),
                            changing("small", 300, 100, 0.002, {0, 0.006}),
                            changing("large", 900, 100, 0.001, {0, 0.004})};
  for (Trial& t : trials) t.measurement->decode_latency = Latency{40, 39, 41};
  trials[2].measurement->decode_latency = Latency{70, 69, 71};
  const std::vector<std::string> objectives{"kl", "size", "latency", "decode_latency"};
  const Summary untold = summary_of("untold", trials, {objectives});
  EXPECT_EQ(untold.selected, "small");
  EXPECT_NE(answer(untold).find("as fast on a prompt, the next token timed too briefly to tell, 0.2 %"),
            std::string::npos)
      << answer(untold);
  for (Trial& t : trials) t.measurement->decode_latency->over_float = {1, {0.98, 1.02}};
  trials[2].measurement->decode_latency->over_float = {1.7, {1.6, 1.8}};
  const Summary told = summary_of("told", trials, {objectives});
  EXPECT_EQ(told.selected, "large");
  EXPECT_NE(answer(told).find("as fast on the next token"), std::string::npos) << answer(told);
  for (Trial& t : trials) t.measurement->decode_latency.reset();  // there was no time for it
  const Summary untimed = summary_of("untimed", trials, {objectives});
  EXPECT_NE(answer(untimed).find("on a prompt, the next token not timed,"), std::string::npos) << answer(untimed);
}

// Resamples of samples of which one changed end below what is possible where none did.
TEST(Recommend, FewerChangesAndLessLossNeverRankBehindMore) {
  const auto changes = [](const std::string& id, int64_t size_bytes, double kl, size_t of_samples, Interval resampled) {
    constexpr size_t kSamples = 100;
    Trial t = trial(id, size_bytes, kl);
    std::vector<double> changed(kSamples);
    std::fill_n(changed.begin(), of_samples, 0.1);  // of each one's ten positions
    t.measurement->losses.top1_disagreement = 0.1 * static_cast<double>(of_samples) / kSamples;
    t.measurement->samples["top1_disagreement"] = changed;
    t.measurement->intervals["top1_disagreement"] = resampled;
    t.measurement->kl_rows = RowLosses{.by_position = std::vector<double>(10)};
    return t;
  };
  const std::vector<Trial> trials{changes("float", 1000, 0, 0, {0, 0}),
                                  changes("full", 250, 0.9, 80, {0.07, 0.09}),
                                  changes("one changed", 300, 0.02, 1, {0, 0.003}),
                                  changes("none", 350, 1e-5, 0, {0, 0}),
                                  changes("none either", 400, 4e-7, 0, {0, 0}),
                                  changes("one again", 420, 3e-7, 1, {0, 0.003})};
  const auto selected = [&](double tolerance) {
    return summary_of("ranks", trials, {.objectives = {"kl", "size"}, .tolerance = tolerance});
  };
  const Summary nearest = selected(0.003);
  EXPECT_FALSE(nearest.as_good_as_float);
  EXPECT_EQ(nearest.selected, "none") << "the cheapest whose KL is at most 2 * 0.003^2";
  EXPECT_NE(answer(nearest).find("0.0 % of the answers change (0.0 to 0.4 %)"), std::string::npos) << answer(nearest);
  EXPECT_EQ(selected(1e-4).selected, "none either") << "no KL is that small: the least of those that change nothing";
  const Summary loose = selected(0.01);
  EXPECT_TRUE(loose.as_good_as_float);
  EXPECT_EQ(loose.selected, "one changed") << "the cheapest of what is surely within";
}

// As of a tagger of 14 texts: the advice is the least tolerance that any candidate needs.
TEST(Recommend, TheNearestNeedsTheLeastTolerance) {
  std::vector<Trial> trials{changing("float", 1000, 100, 0, {0, 0}), changing("full", 250, 100, 0.1, {0.05, 0.2}),
                            changing("small", 300, 100, 0.007, {0, 0.018}), changing("surer", 350, 100, 0, {0, 0})};
  for (Trial& t : trials) {
    const double kl[] = {0, 1e-3, 2e-5, 1e-7};
    t.measurement->losses.kl = kl[&t - trials.data()];
    t.measurement->samples["top1_disagreement"] = std::vector<double>(14);
    if (t.id == "small") t.measurement->samples["top1_disagreement"][3] = 0.1;
    t.measurement->kl_rows = RowLosses{.by_position = std::vector<double>(20)};
  }
  const Summary summary = summary_of("tagger", trials, {{"kl", "size"}});
  EXPECT_FALSE(summary.as_good_as_float);
  EXPECT_EQ(summary.selected, "surer");
  EXPECT_TRUE(answer(summary).ends_with("or --tolerance 1.2%.")) << answer(summary);
}

// A model that is found to be better than float needs no allowance for what the samples do not show.
TEST(Recommend, WhatIsSurelyBetterIsAsGood) {
  std::vector<Trial> trials{trial("float", 1000, 0), trial("full", 250, 0.9), trial("better", 300, 0.1)};
  for (Trial& t : trials) {
    std::vector<double> right(40, 1);
    std::fill_n(right.begin(), t.id == "float" ? 10 : t.id == "full" ? 30 : 0, 0);
    t.measurement->metrics["top1"] = std::accumulate(right.begin(), right.end(), 0.0) / 40;
    t.measurement->samples["top1"] = right;
  }
  const Summary summary = summary_of("better", trials, {{"top1", "size"}});
  EXPECT_TRUE(summary.as_good_as_float);
  EXPECT_EQ(summary.selected, "better");
}

// More data would not help where a flag left samples of it out.
TEST(Recommend, AdviceNamesTheFlagThatLeftSamplesOut) {
  const auto advice = [](const StudyHeader& header, const std::optional<SampleCounts>& fewer, size_t samples = 60) {
    const fs::path dir = fs::temp_directory_path() / "seqto_summarize_test_advice";
    fs::remove_all(dir);
    Study study = Study::open(dir / "study.jsonl", header);
    if (fewer) notes::kFewerSamples.add(study, *fewer);
    std::vector<Trial> trials{trial("float", 1000, 0), trial("full", 250, 0.9), trial("one", 300, 0.1)};
    for (Trial& t : trials) {
      t.measurement->samples["top1_disagreement"] = std::vector<double>(samples, t.id == "full");
      t.measurement->losses.top1_disagreement = t.id == "full";
      study.append(t);
    }
    const std::string said = answer(summarize(study, dir, {{"kl", "size"}}));
    fs::remove_all(dir);
    return said.substr(said.find("give "));
  };
  StudyHeader header;
  header.evaluation_samples = 60;
  EXPECT_EQ(advice(header, {}), "give 368 samples or more, with another --output, or --tolerance 6%.");
  EXPECT_EQ(advice(header, SampleCounts{8, 8, 60, 300}),
            "give more --max-time, or none, with another --output, or --tolerance 6%.");
  EXPECT_EQ(advice(header, SampleCounts{8, 8, 60, 0}),
            "give 368 samples or more, with another --output, or --tolerance 6%.");
  StudyHeader divided = header;  // into less than 50 to calibrate and 64 to search, as more samples will be
  divided.calibration_samples = divided.search_samples = 40;
  divided.options_json = R"({"calibration_samples": 50})";
  EXPECT_EQ(advice(divided, {}), "give 482 samples or more, with another --output, or --tolerance 6%.");
  EXPECT_EQ(advice(divided, {}, 8), "give 482 samples or more, with another --output.") << "37 % is no advice";
  header.options_json = R"({"evaluation_samples": 60})";
  EXPECT_EQ(advice(header, {}), "give --evaluation-samples 368 or more, with another --output, or --tolerance 6%.");
}

TEST(Recommend, OutputsWithoutClassesAreJudgedByTheirLoss) {
  std::vector<Trial> trials{trial("float", 1000, 0), trial("full", 250, 0), trial("good", 500, 0)};
  trials[1].measurement->losses.nmse = 0.2, trials[2].measurement->losses.nmse = 0.003;
  const Summary summary = summary_of("values", trials, {{"nmse", "size"}});
  EXPECT_EQ(summary.judged_by, "nmse");
  EXPECT_EQ(summary.selected, "good");
}

TEST(Recommend, WhatFindsFewerObjectsOrOtherTextsIsNotAsGood) {
  for (const char* metric : {"map50_95", "topk_overlap"}) {
    std::vector<Trial> trials{trial("float", 1000, 0), trial("full", 250, 0), trial("good", 500, 0)};
    trials[1].measurement->losses.nmse = 0.003, trials[2].measurement->losses.nmse = 0.002;
    for (size_t i = 0; i < 3; ++i) trials[i].measurement->metrics[metric] = std::vector{0.8, 0.788, 0.793}[i];
    EXPECT_EQ(summary_of("objects", trials, {{"nmse", "size"}}).selected, "good") << metric;
    EXPECT_EQ(summary_of("objects", trials, {.objectives = {"nmse", "size"}, .tolerance = 0.015}).selected, "full");
    trials[2].measurement->metrics[metric] = 0.7;
    const Summary none = summary_of("objects", trials, {{"nmse", "size"}});
    EXPECT_FALSE(none.as_good_as_float);
    EXPECT_EQ(none.selected, "good") << "the least loss";
  }
}

}  // namespace
}  // namespace seqto
