#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "metrics/zero_scores.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

Outputs outputs(const std::vector<std::vector<float>>& rows) {
  Outputs result;
  for (const auto& row : rows) result.append(row);
  return result;
}

TEST(MeasureOutputs, FiguresAreTheMeansOfTheirSamples) {
  const Outputs reference = outputs({{4, 0, 0}, {0, 4, 0}, {0, 0, 4}, {4, 0, 0}});
  const Outputs candidate = outputs({{4, 0, 0}, {4, 0, 0}, {0, 0, 4}, {3, 0, 0}});
  const std::vector<int64_t> labels{0, 1, 1, -1};
  Measurement m;
  measure_outputs(m, reference, candidate, labels);
  EXPECT_EQ(m.samples.at("top1_disagreement"), (std::vector<double>{0, 1, 0, 0}));
  EXPECT_EQ(m.samples.at("top1"), (std::vector<double>{1, 0, 0}));  // the last has no label
  double sum = 0;
  for (double kl : m.samples.at("kl")) sum += kl;
  EXPECT_NEAR(m.losses.kl, sum / 4, 1e-6);  // samples have six digits
  EXPECT_EQ(m.losses.kl, compare(reference, candidate).kl);
  EXPECT_EQ(m.metrics, task_metrics(candidate, labels));
  for (const char* name : {"kl", "mse", "cosine", "top1_disagreement", "rank_dissimilarity"}) {
    ASSERT_TRUE(m.intervals.contains(name)) << name;
    EXPECT_LE(m.intervals.at(name).low, m.intervals.at(name).high) << name;
  }
  EXPECT_TRUE(m.intervals.at("kl").holds(m.losses.kl));
  EXPECT_TRUE(m.intervals.at("top1").holds(m.metrics.at("top1")));
}

TEST(MeasureOutputs, KeepsTheSamplesOfLossesThatAreAskedFor) {
  Measurement m;
  const std::vector<std::string> paired{"mse", "size", "top1"};
  measure_outputs(m, outputs({{1, 0}, {0, 1}}), outputs({{1, 2}, {0, 1}}), {}, paired);
  EXPECT_EQ(m.samples.at("mse"), (std::vector<double>{2, 0}));
  EXPECT_TRUE(m.samples.contains("kl"));
  EXPECT_EQ(m.samples.size(), 3u);
}

TEST(MeasureOutputs, NoIntervalOfWhatIsNotFinite) {
  Measurement m;
  measure_outputs(m, outputs({{1, 0}, {0, 1}}), outputs({{std::nanf(""), 0}, {0, 1}}), {});
  EXPECT_TRUE(std::isinf(m.losses.kl));
  EXPECT_FALSE(m.intervals.contains("kl"));
  EXPECT_TRUE(m.intervals.contains("top1_disagreement"));
}

Measurement with(const char* name, std::vector<double> values) {
  Measurement m;
  m.samples[name] = std::move(values);
  return m;
}

TEST(PairedDifference, SeesWhatUnpairedIntervalsDoNot) {
  std::mt19937 engine(1);
  std::exponential_distribution<double> spread;
  std::vector<double> a, b, c;
  for (int i = 0; i < 200; ++i) {
    a.push_back(spread(engine));
    b.push_back(a.back() * 1.02);
    c.push_back(a.back() + (i % 2 == 0 ? 0.3 : -0.3));
  }
  const auto worse = paired_difference(with("kl", b), with("kl", a), "kl");
  ASSERT_TRUE(worse);
  EXPECT_GT(worse->low, 0);
  EXPECT_TRUE(bootstrap_mean(a).holds(1.02 * bootstrap_mean(a).low + 0.01));  // far wider than the 2 %
  EXPECT_TRUE(paired_difference(with("kl", c), with("kl", a), "kl")->holds(0));
  EXPECT_FALSE(paired_difference(with("kl", {1}), with("kl", {1, 2}), "kl"));
  EXPECT_FALSE(paired_difference(with("kl", {1}), Measurement{}, "kl"));
}

// Two values of each of 20 files: what half of the files lose says less than what half of 40 samples would.
TEST(PairedDifference, GoesByBlocks) {
  std::vector<double> values;
  Blocks blocks;
  for (int64_t i = 0; i < 40; ++i) {
    values.push_back(i / 2 % 2 == 0 ? 1 : 0);
    blocks.push_back(i / 2);
  }
  const Measurement none = with("kl", std::vector<double>(40, 0)), alone = with("kl", values);
  Measurement together = alone;
  together.blocks = blocks;
  const auto narrow = paired_difference(alone, none, "kl"), wide = paired_difference(together, none, "kl");
  ASSERT_TRUE(narrow && wide);
  EXPECT_NEAR((wide->high - wide->low) / (narrow->high - narrow->low), std::sqrt(2.0), 0.15);

  Measurement labelled;
  labelled.blocks = blocks;
  std::vector<int64_t> labels(40, 0);
  const std::vector<float> right{1, 0}, wrong{0, 1};
  Outputs rows;
  for (const double value : values) rows.append(value > 0 ? right : wrong);
  measure_outputs(labelled, rows, rows, labels);
  EXPECT_EQ(labelled.intervals.at("top1"), bootstrap_mean(values, blocks));
}

// The same where the labels of some are not known: those that are known go by their files.
TEST(PairedDifference, GoesByBlocksOfTheLabelledSamples) {
  const std::vector<float> right{1, 0}, wrong{0, 1};
  Measurement alone, together, none;
  std::vector<int64_t> labels;
  Outputs rows, misses;
  for (int64_t i = 0; i < 120; ++i) {
    together.blocks.push_back(i / 3);
    labels.push_back(i % 3 == 0 ? -1 : 0);
    rows.append(i / 3 % 2 == 0 ? right : wrong);
    misses.append(wrong);
  }
  none.blocks = together.blocks;
  measure_outputs(alone, rows, rows, labels);
  measure_outputs(together, rows, rows, labels);
  measure_outputs(none, rows, misses, labels);
  const auto width = [](const Interval& i) { return i.high - i.low; };
  for (const char* name : {"top1", "f1"})
    EXPECT_NEAR(width(together.intervals.at(name)) / width(alone.intervals.at(name)), std::sqrt(2.0), 0.2) << name;
  const auto difference = paired_difference(together, none, "top1");
  ASSERT_TRUE(difference);
  EXPECT_NEAR(width(*difference) / width(alone.intervals.at("top1")), std::sqrt(2.0), 0.2);
}

TEST(PairedDifference, OfManyAtOnceIsThatOfTwo) {
  Measurement f1 = with("top1", {1, 0, 1});
  f1.replicates["f1"] = {0.5, 0.7, 0.9};
  const Measurement a = with("kl", {1, 2, 3, 4, 5, 9}), b = with("kl", {2, 2, 2, 4, 7, 7}),
                    short_one = with("kl", {1, 2});
  const Measurement* all[]{&a, &f1, &short_one, &b};
  const PairedFigure figure(all, "kl");
  EXPECT_EQ(figure.difference(0, 3), paired_difference(a, b, "kl"));
  EXPECT_NEAR(figure.difference(0, 3)->low, -figure.difference(3, 0)->high, 1e-12);
  EXPECT_EQ(figure.difference(0, 0), (Interval{0, 0}));
  EXPECT_FALSE(figure.difference(0, 1));
  EXPECT_FALSE(figure.difference(0, 2));
  EXPECT_EQ(PairedFigure(all, "f1").difference(1, 1), (Interval{0, 0}));
}

TEST(Drop, IsWhatGotWorse) {
  Measurement before, after;
  before.metrics = {{"top1", 0.9}, {"mae", 2}};
  after.metrics = {{"top1", 0.7}, {"mae", 2.5}};
  before.lower_is_better = after.lower_is_better = {"mae"};
  EXPECT_NEAR(drop(after, before, "top1"), 0.2, 1e-12);
  EXPECT_NEAR(drop(after, before, "mae"), 0.5, 1e-12);
  EXPECT_NEAR(drop(before, after, "mae"), -0.5, 1e-12);
}

TEST(PairedDifference, McNemarCountsWhereOneAloneIsRight) {
  const Measurement a = with("top1", {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0});
  const Measurement b = with("top1", {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0});
  EXPECT_NEAR(*mcnemar(a, b), 0.021484375, 1e-12);
  EXPECT_DOUBLE_EQ(*mcnemar(a, a), 1);
  EXPECT_FALSE(mcnemar(a, Measurement{}));
  Measurement windows = a;
  windows.blocks.assign(a.samples.at("top1").size(), 0);
  EXPECT_FALSE(mcnemar(windows, b)) << "windows of one recording are no pairs of their own";
}

TEST(TrialJson, KeepsPartStepIntervalsAndSamples) {
  Trial trial{.id = "a", .part = Part::kAcceptance, .step = "swap"};
  trial.measurement = with("kl", {0.123456789, 1e-9, std::numeric_limits<double>::infinity()});
  trial.measurement->intervals["kl"] = {0.1, 0.2};
  const Trial read = trial_from_json(trial_to_json(trial));
  EXPECT_EQ(read.part, Part::kAcceptance);
  EXPECT_EQ(read.step, "swap");
  EXPECT_EQ(read.measurement->intervals.at("kl"), (Interval{0.1, 0.2}));
  EXPECT_EQ(read.measurement->samples.at("kl"),
            (std::vector<double>{0.123457, 1e-9, std::numeric_limits<double>::infinity()}));
  // A trial of the report is written as before.
  EXPECT_EQ(trial_to_json(Trial{.id = "a"}).find("part"), std::string::npos);
}

// Of scores so large that their softmax is one class alone.
TEST(ZeroScores, AKlThatNoCandidateHasIsNoted) {
  const auto note = [](std::vector<std::pair<double, double>> kl_and_nmse) {
    std::vector<Trial> trials{{.id = "float", .measurement = Measurement()}, {.id = "failed", .failure = "no"}};
    for (const auto& [kl, nmse] : kl_and_nmse) {
      trials.push_back({.id = "some", .measurement = Measurement()});
      trials.back().measurement->losses = {.kl = kl, .nmse = nmse};
    }
    return internal::note_on_silent_kl(trials);
  };
  EXPECT_NE(note({{0, 0.137}, {0, 0.02}}).find("kl is 0 for all 2 candidates, and their nmse goes up to 0.137:"),
            std::string::npos);
  EXPECT_EQ(note({{0, 0.137}, {1e-9, 0.02}}), "");
  EXPECT_EQ(note({{0, 1e-8}}), "") << "nothing changes";
  EXPECT_EQ(note({}), "");
}

}  // namespace
}  // namespace seqto
