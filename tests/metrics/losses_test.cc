#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "metrics/loss_fields.h"
#include "metrics/top_classes.h"
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

void expect_losses(const Losses& found, const Losses& expected) {
  for (const LossField& field : kLossFields) {
    EXPECT_NEAR(found.*field.value, expected.*field.value, 1e-13) << field.name;
  }
}

std::vector<int64_t> top(std::vector<float> scores) {
  const TopClasses found = top_classes(scores);
  return {found.list().begin(), found.list().end()};
}

TEST(TopClasses, HigherIndexWinsATieAndNanComesFirst) {
  EXPECT_EQ(top({1, 1, 1, 1, 1, 1, 1}), (std::vector<int64_t>{6, 5, 4, 3, 2}));
  EXPECT_EQ(top({5, 9, 5, 1, 7, 2, 8}), (std::vector<int64_t>{1, 6, 4, 2, 0}));
  EXPECT_EQ(top({0.0f, -0.0f, -1}), (std::vector<int64_t>{1, 0, 2}));
  EXPECT_EQ(top({1, kNan, kInf, kNan}), (std::vector<int64_t>{3, 1, 2, 0}));
  EXPECT_EQ(top({4}), (std::vector<int64_t>{0}));
  EXPECT_TRUE(top({}).empty());
}

// The figures of the published script with numpy and scipy.
TEST(Losses, KnownAnswers) {
  expect_losses(compare(rows({{1, 2, 3, 4, 5, 6}, {0.5, 0.5, -1, 2, 2, 0}, {9, 8, 7, 6, 5, 4}}),
                        rows({{1, 2.5, 3, 4, 6, 5}, {0.5, 0.25, -1, 2, 2, 0.5}, {9, 8, 7, 6, 4.5, 4.75}})),
                {.kl = 0.13835203595648313,
                 .top1_disagreement = 1.0 / 3,
                 .top5_disagreement = 1.0 / 3,
                 .rank_dissimilarity = 0.25243309002433084,
                 .mse = 0.1875,
                 .cosine = 0.010004899900088718});
  expect_losses(compare(rows({{1, 1, 1, 1, 1, 1, 1}}), rows({{1, 1, 1, 1, 1, 1, 2}})),
                {.kl = 0.07665488857220815, .mse = 1.0 / 7, .cosine = 0.043817112532485214});
}

TEST(Losses, FewerThanFiveClasses) {
  expect_losses(
      compare(rows({{1, 2, 3}}), rows({{3, 2, 1}})),
      {.kl = 1.1504207652033582, .top1_disagreement = 1, .rank_dissimilarity = 1, .mse = 8.0 / 3, .cosine = 2.0 / 7});
  expect_losses(compare(rows({{1}, {2}}), rows({{1}, {4}})), {.mse = 2});
}

TEST(Losses, SharesOfZeroStayFinite) {
  expect_losses(compare(rows({{80, 0, -80, 1}}), rows({{-80, 0, 80, 1}})), {.kl = 27.631021115929546,
                                                                            .top1_disagreement = 1,
                                                                            .rank_dissimilarity = 0.34666666666666673,
                                                                            .mse = 12800,
                                                                            .cosine = 1.9998437622060776});
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
  expect_losses({.top1_disagreement = losses.top1_disagreement,
                 .top5_disagreement = losses.top5_disagreement,
                 .rank_dissimilarity = losses.rank_dissimilarity},
                {.top1_disagreement = 0.5, .top5_disagreement = 0.5, .rank_dissimilarity = 0.5});
  for (double loss : {losses.kl, losses.mse, losses.cosine}) EXPECT_EQ(loss, kInf);
  const Losses infinite = compare(rows({{1, 2, 3}}), rows({{1, kInf, 3}}));
  for (double loss : {infinite.kl, infinite.mse, infinite.cosine}) EXPECT_EQ(loss, kInf);
  EXPECT_EQ(infinite.top1_disagreement, 1);
}

TEST(Losses, OtherShapesAreAnError) {
  EXPECT_THROW(compare(rows({{1, 2}}), rows({{1, 2, 3}})), Error);
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

TEST(TaskMetrics, NanPredictsNothingAndUnknownClassesAreMissed) {
  const auto metrics = task_metrics(rows({{kNan, 1}, {0, 1}}), std::vector<int64_t>{0, 7});
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

}  // namespace
}  // namespace seqto
