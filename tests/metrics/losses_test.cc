#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "metrics/loss/loss_fields.h"
#include "metrics/loss/output_values.h"
#include "metrics/loss/softmax.h"
#include "metrics/loss/top_classes.h"
#include "seqto/error.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

const float kNan = std::nanf("");
const float kInf = std::numeric_limits<float>::infinity();

Outputs rows(const std::vector<std::vector<float>>& values) {
  Outputs outputs;
  for (const auto& row : values) outputs.append(row);
  return outputs;
}

TEST(Shares, AreNotNegativeAndSumToOne) {
  const auto are = [](std::vector<float> row) { return are_shares(row); };
  EXPECT_TRUE(are({0.25f, 0.75f, 0}));
  EXPECT_TRUE(are({0.2502f, 0.7502f})) << "8 bits";
  EXPECT_FALSE(are({0.25f, 0.76f}));
  EXPECT_FALSE(are({1.25f, -0.25f}));
  EXPECT_FALSE(are({1})) << "a score";
  EXPECT_FALSE(are({kNan, 1}));
}

void expect_losses(const Losses& found, const Losses& expected) {
  for (const LossField& field : kLossFields) {
    EXPECT_NEAR(found.*field.value, expected.*field.value, 1e-13) << field.name;
  }
}

std::vector<int64_t> top(std::vector<float> scores, Ties ties = Ties::kFirst) {
  const TopClasses found = top_classes(scores, ties);
  return {found.list().begin(), found.list().end()};
}

TEST(TopClasses, OfEqualScoresTheFirstAsInArgMax) {
  EXPECT_EQ(top({1, 1, 1, 1, 1, 1, 1}), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(top({5, 9, 5, 1, 7, 2, 8}), (std::vector<int64_t>{1, 6, 4, 0, 2}));
  EXPECT_EQ(top({0.0f, -0.0f, -1}), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(top({1, kNan, kInf, kNan}), (std::vector<int64_t>{1, 3, 2, 0}));
  EXPECT_EQ(top({4}), (std::vector<int64_t>{0}));
  EXPECT_TRUE(top({}).empty());
}

TEST(TopClasses, OfEqualScoresTheLastAsPublished) {
  EXPECT_EQ(top({1, 1, 1, 1, 1, 1, 1}, Ties::kLast), (std::vector<int64_t>{6, 5, 4, 3, 2}));
  EXPECT_EQ(top({5, 9, 5, 1, 7, 2, 8}, Ties::kLast), (std::vector<int64_t>{1, 6, 4, 2, 0}));
  EXPECT_EQ(top({0.0f, -0.0f, -1}, Ties::kLast), (std::vector<int64_t>{1, 0, 2}));
  EXPECT_EQ(top({1, kNan, kInf, kNan}, Ties::kLast), (std::vector<int64_t>{3, 1, 2, 0}));
}

// The figures of the published script with numpy and scipy; of equal scores the first class is that of ArgMax, and the
// ranks are the script's.
TEST(Losses, KnownAnswers) {
  expect_losses(compare(rows({{1, 2, 3, 4, 5, 6}, {0.5, 0.5, -1, 2, 2, 0}, {9, 8, 7, 6, 5, 4}}),
                        rows({{1, 2.5, 3, 4, 6, 5}, {0.5, 0.25, -1, 2, 2, 0.5}, {9, 8, 7, 6, 4.5, 4.75}})),
                {.kl = 0.13835203595648313,
                 .top1_disagreement = 1.0 / 3,
                 .top5_disagreement = 1.0 / 3,
                 .rank_dissimilarity = 0.25243309002433084,
                 .mse = 0.1875,
                 .cosine = 0.010004899900088718,
                 .nmse = 3.375 / (371.5 - 689.5 / 3),
                 .probability_change = 0.13597041060309173});
  expect_losses(compare(rows({{1, 1, 1, 1, 1, 1, 1}}), rows({{1, 1, 1, 1, 1, 1, 2}})),
                {.kl = 0.07665488857220815,
                 .top1_disagreement = 1,
                 .top5_disagreement = 1,
                 .mse = 1.0 / 7,
                 .cosine = 0.043817112532485214,
                 .nmse = 1,
                 .probability_change = 0.0281556432181079});
}

TEST(Losses, FewerThanFiveClasses) {
  expect_losses(compare(rows({{1, 2, 3}}), rows({{3, 2, 1}})), {.kl = 1.1504207652033582,
                                                                .top1_disagreement = 1,
                                                                .rank_dissimilarity = 1,
                                                                .mse = 8.0 / 3,
                                                                .cosine = 2.0 / 7,
                                                                .nmse = 1,
                                                                .probability_change = 0.5752103826044414});
  expect_losses(compare(rows({{1}, {2}}), rows({{1}, {4}})), {.mse = 2, .nmse = 0.5});
}

TEST(Losses, SharesOfZeroStayFinite) {
  expect_losses(compare(rows({{80, 0, -80, 1}}), rows({{-80, 0, 80, 1}})), {.kl = 27.631021115929546,
                                                                            .top1_disagreement = 1,
                                                                            .rank_dissimilarity = 0.34666666666666673,
                                                                            .mse = 12800,
                                                                            .cosine = 1.9998437622060776,
                                                                            .nmse = 1,
                                                                            .probability_change = 1});
}

TEST(Losses, EqualOutputsLoseNothingAtAll) {
  for (size_t columns : {1, 2, 3, 4, 5, 9}) {
    Outputs outputs;
    std::vector<float> row(columns);
    for (size_t i = 0; i < columns; ++i) row[i] = 0.1f * static_cast<float>((i * 7) % 5);
    outputs.append(row);
    outputs.append(std::vector<float>(columns, 0.0f));
    const Losses losses = compare(outputs, outputs);
    for (const LossField& field : kLossFields) EXPECT_EQ(losses.*field.value, 0) << field.name << ' ' << columns;
  }
  // Four classes in the same order but of other scores: still no dissimilarity.
  EXPECT_EQ(compare(rows({{1, 2, 3, 4}}), rows({{1, 2, 3, 5}})).rank_dissimilarity, 0);
}

TEST(Losses, ZeroVectors) {
  EXPECT_EQ(compare(rows({{0, 0}}), rows({{0, -0.0f}})).cosine, 0);
  EXPECT_EQ(compare(rows({{0, 0}}), rows({{0, 1}})).cosine, 1);
}

TEST(Losses, NanIsInfinitelyWrong) {
  const Losses losses = compare(rows({{1, 2, 3}, {1, 2, 3}}), rows({{1, 2, 3}, {1, kNan, 3}}));
  expect_losses(
      {.top1_disagreement = losses.top1_disagreement,
       .top5_disagreement = losses.top5_disagreement,
       .rank_dissimilarity = losses.rank_dissimilarity,
       .probability_change = losses.probability_change},
      {.top1_disagreement = 0.5, .top5_disagreement = 0.5, .rank_dissimilarity = 0.5, .probability_change = 0.5});
  for (double loss : {losses.kl, losses.mse, losses.cosine, losses.nmse}) EXPECT_EQ(loss, kInf);
  const Losses infinite = compare(rows({{1, 2, 3}}), rows({{1, kInf, 3}}));
  for (double loss : {infinite.kl, infinite.mse, infinite.cosine, infinite.nmse}) EXPECT_EQ(loss, kInf);
  EXPECT_EQ(infinite.top1_disagreement, 1);
  EXPECT_EQ(infinite.probability_change, 1);
}

// A row of outputs of the dims given.
void append(Outputs& outputs, std::vector<std::pair<std::vector<int64_t>, std::vector<float>>> row) {
  std::vector<Tensor> tensors;
  for (auto& [dims, values] : row) tensors.push_back(Tensor::from(DataType::kFloat, dims, std::move(values)));
  internal::append_outputs(outputs, tensors, "[test]");
}

TEST(NormalizedError, ChannelsWeighAlikeWhateverTheirUnits) {
  Outputs wanted, found;
  append(wanted, {{{1, 2, 3}, {100, 200, 300, 0.1F, 0.2F, 0.2F}}});
  append(wanted, {{{1, 2, 3}, {100, 200, 300, 0.3F, 0, 0}}});
  append(found, {{{1, 2, 3}, {100, 200, 310, 0.1F, 0.2F, 0.2F}}});
  append(found, {{{1, 2, 3}, {100, 200, 300, 0, 0, 0}}});
  const auto losses = compare_each(wanted, found);
  EXPECT_NEAR(losses[0].nmse, 100.0 / 20000 / 2, 1e-9);
  EXPECT_NEAR(losses[1].nmse, 0.5, 1e-6);  // nothing is left of the second channel of this sample
  // The same by the last axis, which is shorter then.
  Outputs last_wanted, last_found;
  append(last_wanted, {{{1, 3, 2}, {100, 0.1F, 200, 0.2F, 300, 0.2F}}});
  append(last_found, {{{1, 3, 2}, {100, 0.1F, 200, 0.2F, 310, 0.2F}}});
  EXPECT_NEAR(compare(last_wanted, last_found).nmse, 100.0 / 20000 / 2, 1e-9);
}

// A map of air pressure, in Pascals.
TEST(NormalizedError, AnOffsetHidesNoError) {
  Outputs wanted, found;
  append(wanted, {{{1, 4}, {101325, 101425, 101325, 101425}}});
  append(found, {{{1, 4}, {101325, 101375, 101325, 101375}}});
  EXPECT_NEAR(compare(wanted, found).nmse, 0.5, 1e-9);
  // Columns of other units have means of their own.
  Outputs columns, off;
  for (const float value : {-1.0F, 1.0F}) {
    append(columns, {{{1, 2}, {3000 + value, value}}});
    append(off, {{{1, 2}, {3000, value}}});
  }
  EXPECT_NEAR(compare(columns, off).nmse, 1.0 / 2, 1e-9);
  // What never changes has no other measure than itself.
  Outputs still, moved;
  append(still, {{{1, 2}, {1000, 1000}}});
  append(moved, {{{1, 2}, {1000, 1000.1F}}});
  EXPECT_NEAR(compare(still, moved).nmse, 0.1 / 2, 1e-4);
}

TEST(Losses, MasksAlikeLoseNothing) {
  Outputs wanted, found, other;
  append(wanted, {{{1, 4}, {1, kNan, -kInf, 3}}});
  append(found, {{{1, 4}, {1, kNan, -kInf, 3}}});
  append(other, {{{1, 4}, {1, kNan, 0, 3}}});
  for (const LossField& field : kLossFields) EXPECT_EQ(compare(wanted, found).*field.value, 0) << field.name;
  for (const double loss : {compare(wanted, other).mse, compare(wanted, other).cosine}) EXPECT_EQ(loss, kInf);
  // A sample that is nothing but NaN is no mask.
  Outputs fault;
  append(fault, {{{1, 2}, {kNan, kNan}}});
  EXPECT_EQ(compare(fault, fault).kl, kInf);
}

TEST(Losses, OfLabelsAreTheShareThatDiffers) {
  const auto labels = [](std::vector<int64_t> values) {
    Outputs outputs;
    internal::append_outputs(outputs, std::vector{int64_tensor({1, 4}, values)}, "[test]");
    return outputs;
  };
  const Outputs wanted = labels({7, 300, 2, 2}), found = labels({7, 301, 2, 9});
  EXPECT_TRUE(wanted.labels);
  EXPECT_EQ(compare(wanted, found).top1_disagreement, 0.5);
  EXPECT_EQ(compare(wanted, found).kl, 0.5);
  EXPECT_EQ(compare(wanted, wanted).kl, 0);
  EXPECT_FALSE(pooled_kl(wanted, found));
}

TEST(Losses, OfAMapAreThoseOfItsPixels) {
  Outputs wanted{.classes_second = true}, found{.classes_second = true};
  append(wanted, {{{1, 3, 1, 2}, {9, 0, 0, 9, 0, 0}}});  // class 0, class 1
  append(found, {{{1, 3, 1, 2}, {9, 0, 0, 0, 0, 9}}});   // class 0, class 2
  EXPECT_EQ(wanted.dims, (std::vector<int64_t>{1, 1, 2, 3}));
  EXPECT_EQ(compare(wanted, found).top1_disagreement, 0.5);
  EXPECT_THROW(append(found, {{{1, 3}, {1, 2, 3}}}), Error);
}

TEST(NormalizedError, TheWorstOutputIsNamed) {
  Outputs wanted{.names = {"scores", "boxes"}}, found;
  append(wanted, {{{1, 2}, {1, 2}}, {{1, 2}, {3, 4}}});
  append(found, {{{1, 2}, {1, 2}}, {{1, 2}, {3, 3.5F}}});
  Measurement measured, single;
  measure_outputs(measured, wanted, found, {});
  ASSERT_TRUE(measured.worst_output);
  EXPECT_EQ(measured.worst_output->name, "boxes");
  EXPECT_EQ(measured.worst_output->outputs, 2);
  EXPECT_DOUBLE_EQ(measured.worst_output->nmse, 0.5);
  const Trial read = trial_from_json(trial_to_json({.id = "full", .measurement = measured}));
  EXPECT_EQ(read.measurement->worst_output->name, "boxes");
  Outputs one;
  append(one, {{{1, 2}, {1, 2}}});
  measure_outputs(single, one, one, {});
  EXPECT_FALSE(single.worst_output);
}

TEST(NormalizedError, MasksAlikeLoseNothing) {
  Outputs wanted, found;
  append(wanted, {{{1, 4}, {1, kNan, -kInf, 3}}});
  append(found, {{{1, 4}, {1, kNan, -kInf, 2}}});
  EXPECT_NEAR(compare(wanted, found).nmse, 0.5, 1e-9);
}

TEST(NormalizedError, LooksAtEveryFloatOutput) {
  Outputs wanted, found, first;
  append(wanted, {{{1, 2}, {1, 2}}, {{1, 2}, {3, 4}}});
  append(found, {{{1, 2}, {1, 2}}, {{1, 2}, {3, 3.5F}}});
  first.append(std::vector<float>{1, 2});
  EXPECT_DOUBLE_EQ(compare(wanted, found).nmse, (0.25 / 0.5) / 2);
  EXPECT_EQ(compare(wanted, found).kl, 0);
  EXPECT_EQ(compare(wanted, first).nmse, 0);  // knows of no other output
  // Where the candidate's second output has another number of values now and then, nothing of it counts as right; where
  // the reference's does, there is nothing to compare.
  append(wanted, {{{1, 2}, {1, 2}}, {{1, 2}, {3, 4}}});
  append(found, {{{1, 2}, {1, 2}}, {{1, 1}, {3}}});
  EXPECT_TRUE(found.others.empty());
  EXPECT_DOUBLE_EQ(compare(wanted, found).nmse, 0.5);
  append(wanted, {{{1, 2}, {1, 2}}, {{1, 1}, {3}}});
  append(found, {{{1, 2}, {1, 2}}, {{1, 1}, {3}}});
  EXPECT_EQ(compare(wanted, found).nmse, 0);
}

// Of [1, tokens, classes] each token is a row: means over the rows, whatever the other rows' scores are.
TEST(Losses, OfRowsOfClassesAreMeansOverTheRows) {
  Outputs wanted, found;
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{0.5F, 0.5F, -1, 2, 2, 0}, c{9, 8, 7, 6, 5, 4};
  const std::vector<float> x{1, 2.5F, 3, 4, 6, 5}, y{0.5F, 0.25F, -1, 2, 2, 0.5F}, z{9, 8, 7, 6, 4.5F, 4.75F};
  auto joined = [](const std::vector<float>& first, const std::vector<float>& second) {
    std::vector<float> both = first;
    both.insert(both.end(), second.begin(), second.end());
    return both;
  };
  append(wanted, {{{1, 2, 6}, joined(a, b)}});
  append(wanted, {{{1, 2, 6}, joined(c, a)}});
  append(found, {{{1, 2, 6}, joined(x, y)}});
  append(found, {{{1, 2, 6}, joined(z, a)}});
  EXPECT_EQ(wanted.classes(), 6);
  const auto each = compare_each(wanted, found);
  const Losses first = compare(rows({a, b}), rows({x, y})), second = compare(rows({c, a}), rows({z, a}));
  for (double Losses::* field :
       {&Losses::kl, &Losses::top1_disagreement, &Losses::top5_disagreement, &Losses::rank_dissimilarity}) {
    EXPECT_NEAR(each[0].*field, first.*field, 1e-15);
    EXPECT_NEAR(each[1].*field, second.*field, 1e-15);
  }
  EXPECT_DOUBLE_EQ(each[0].mse, compare(rows({joined(a, b)}), rows({joined(x, y)})).mse);
  ASSERT_TRUE(pooled_kl(wanted, found));
  EXPECT_DOUBLE_EQ(*pooled_kl(wanted, found), *pooled_kl(rows({a, b, c, a}), rows({x, y, z, a})));
}

TEST(Losses, OneLongAxisIsOneRow) {
  Outputs outputs;
  append(outputs, {{{1, 6, 1, 1}, {1, 2, 3, 4, 5, 6}}});
  EXPECT_EQ(outputs.classes(), 6);
  EXPECT_EQ(rows({{1, 2, 3}}).classes(), 3);
}

TEST(Losses, WhatIsAnsweredInAnotherLengthIsWhollyWrong) {
  const Outputs wanted = rows({{3, 4}, {1, 2}});
  Outputs found;
  for (const std::vector<float>& row : {std::vector<float>{3, 4, 5}, {1, 2}}) found.append_of_any_length(row);
  const std::vector<Losses> each = compare_each(wanted, found);
  expect_losses(each[0], {.kl = -std::log(1e-12),
                          .top1_disagreement = 1,
                          .top5_disagreement = 1,
                          .rank_dissimilarity = 1,
                          .mse = 12.5,
                          .cosine = 1,
                          .nmse = 1,
                          .probability_change = 1});
  expect_losses(each[1], {});
  EXPECT_FALSE(pooled_kl(wanted, found));
  Measurement measurement;
  measure_outputs(measurement, wanted, found, {});
  EXPECT_EQ(measurement.samples.at("other_shape"), (std::vector<double>{1, 0}));
  measure_outputs(measurement = {}, wanted, wanted, {});
  EXPECT_FALSE(measurement.samples.contains("other_shape"));
}

TEST(Losses, OtherNumbersOfSamplesAreAnError) {
  EXPECT_THROW(compare(rows({{1, 2}}), rows({{1, 2}, {1, 2}})), Error);
  EXPECT_THROW(rows({{1, 2}, {1}}), Error);
  EXPECT_EQ(compare({}, {}).kl, 0);
}

TEST(TaskMetrics, KnownAnswers) {
  // Predictions 0, 0, 1, 2; the last sample has no label.
  const Outputs outputs =
      rows({{9, 1, 0, 0, 0, 0, 0}, {9, 8, 1, 1, 1, 1, 0}, {0, 9, 1, 1, 1, 1, 0}, {0, 0, 9, 0, 0, 0, 0}});
  const auto metrics = task_metrics(outputs, std::vector<int64_t>{0, 1, 1, -1});
  EXPECT_DOUBLE_EQ(metrics.at("top1"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.at("top5"), 1);
  EXPECT_DOUBLE_EQ(metrics.at("f1"), 2.0 / 3);  // class 0: 2*1/(1+2); class 1: 2*1/(2+1)
  EXPECT_TRUE(task_metrics(outputs, std::vector<int64_t>(4, -1)).empty());
  EXPECT_TRUE(task_metrics(outputs, {}).empty());
  EXPECT_THROW(task_metrics(outputs, std::vector<int64_t>{0}), Error);
}

TEST(TaskMetrics, NanPredictsNothing) {
  const auto metrics = task_metrics(rows({{kNan, 1}}), std::vector<int64_t>{0});
  EXPECT_EQ(metrics, (std::map<std::string, double>{{"f1", 0}, {"top1", 0}, {"top5", 0}}));
}

TEST(Latency, Quantiles) {
  const Latency latency = summarize_latency({100, 10, 40, 20, 30, 90, 81});
  EXPECT_EQ(latency.median_ns, 40);
  EXPECT_EQ(latency.p10_ns, 16);
  EXPECT_EQ(latency.p90_ns, 94);
  EXPECT_EQ(summarize_latency({7}).p90_ns, 7);
  EXPECT_EQ(summarize_latency({}).median_ns, 0);
}

// Sequences of 2, 3 and 1 positions with 4 classes each.
Outputs sequences(float noise) {
  Outputs outputs;
  int value = 0;
  for (const int64_t positions : {2, 3, 1}) {
    std::vector<float> values(static_cast<size_t>(positions) * 4);
    for (float& v : values) {
      ++value;
      v = static_cast<float>(value % 7) + noise * static_cast<float>(value % 3);
    }
    internal::append_values(outputs, float_tensor({1, positions, 4}, values));
  }
  return outputs;
}

// As of where an answer begins and ends in texts of several lengths.
TEST(Losses, OfPositionsOfSeveralLengthsAreThoseOfEachAlone) {
  const auto answers = [](std::vector<std::vector<float>> begins, std::vector<std::vector<float>> ends) {
    Outputs outputs;
    for (size_t i = 0; i < begins.size(); ++i) {
      const std::vector<int64_t> dims{1, std::ssize(begins[i])};
      const std::vector<Tensor> tensors{float_tensor(dims, begins[i]), float_tensor(dims, ends[i])};
      internal::append_outputs(outputs, tensors, "[test]");
    }
    return outputs;
  };
  const Outputs wanted = answers({{1, 5, 2}, {0, 1, 2, 9}, {4, 3}}, {{1, 2, 5}, {0, 1, 2, 9}, {3, 4}});
  const Outputs found = answers({{1, 5, 2}, {0, 9, 2, 1}, {4, 3.5}}, {{1, 2, 5}, {0, 1, 2, 9}, {3, 5}});
  ASSERT_EQ(wanted.others.size(), 1u);
  const std::vector<Losses> each = compare_each(wanted, found);
  ASSERT_EQ(each.size(), 3u);
  EXPECT_EQ(each[0].kl, 0);
  EXPECT_EQ(each[1].top1_disagreement, 1);
  EXPECT_EQ(each[2].top1_disagreement, 0);
  EXPECT_NEAR(each[2].kl, compare_each(answers({{4, 3}}, {{3, 4}}), answers({{4, 3.5}}, {{3, 4}}))[0].kl, 1e-12);
  EXPECT_GT(each[2].nmse, 0);
}

TEST(Losses, OfSequencesOfSeveralLengthsAreThoseOfEachAlone) {
  const Outputs wanted = sequences(0), found = sequences(0.5f);
  ASSERT_EQ(wanted.ends, (std::vector<size_t>{8, 20, 24}));
  const std::vector<Losses> each = compare_each(wanted, found);
  ASSERT_EQ(each.size(), 3u);
  for (int64_t i = 0; i < 3; ++i) {
    Outputs one_wanted, one_found;
    const int64_t positions = std::ssize(wanted.row(i)) / 4;
    const auto tensor = [&](const Outputs& outputs) {
      return float_tensor({1, positions, 4}, {outputs.row(i).begin(), outputs.row(i).end()});
    };
    internal::append_values(one_wanted, tensor(wanted));
    internal::append_values(one_found, tensor(found));
    const Losses alone = compare(one_wanted, one_found);
    EXPECT_GT(alone.kl, 0);
    EXPECT_EQ(each[static_cast<size_t>(i)].kl, alone.kl);
    EXPECT_EQ(each[static_cast<size_t>(i)].cosine, alone.cosine);
  }
}

TEST(Losses, HiddenPositionsDoNotCount) {
  Outputs wanted, found, cut;
  const std::vector<char> counted{1, 0, 1};
  internal::append_values(wanted, float_tensor({1, 3, 2}, {1, 2, 3, 4, 5, 6}), counted);
  internal::append_values(found, float_tensor({1, 3, 2}, {1, 2, -9, 9, 5, 6}), counted);
  EXPECT_EQ(wanted.values, (std::vector<float>{1, 2, 5, 6}));
  EXPECT_EQ(wanted.dims, (std::vector<int64_t>{1, 2, 2}));
  EXPECT_EQ(compare(wanted, found).kl, 0);
}

Outputs of_shapes(const std::vector<std::vector<int64_t>>& shapes) {
  Outputs outputs;
  for (const std::vector<int64_t>& dims : shapes) {
    const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies());
    internal::append_values(outputs, float_tensor(dims, std::vector<float>(static_cast<size_t>(count))));
  }
  return outputs;
}

TEST(Outputs, OfListsHaveTheirClasses) {
  for (const auto& shapes :
       {std::vector<std::vector<int64_t>>{{3, 4}, {2, 4}}, {{0, 4}, {2, 4}}, {{1, 4}, {2, 4}, {0, 4}}}) {
    const Outputs outputs = of_shapes(shapes);
    EXPECT_EQ(outputs.classes(), 4);
    EXPECT_EQ(outputs.row(1).size(), 8);
  }
}

TEST(Outputs, OfAnotherNumberOfClassesAreSingleRows) {
  const Outputs outputs = of_shapes({{1, 2, 4}, {1, 2, 3}, {1, 3, 4}});
  EXPECT_TRUE(outputs.dims.empty());
  EXPECT_EQ(outputs.classes(), 12) << "the longest";
  EXPECT_EQ(outputs.row(1).size(), 6);
  EXPECT_THROW(rows({{1, 2}, {1, 2, 3}}), Error);
}

}  // namespace
}  // namespace seqto
