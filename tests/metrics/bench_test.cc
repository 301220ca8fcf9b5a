#include "seqto/bench.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>

#include "seqto/model.h"

namespace seqto {
namespace {

constexpr double kMargin = 0.01;

TEST(CompareTimes, EqualTimesAreEqual) {
  const RoundTimes times{{100, 120, 90}, {80, 200, 100}};
  const BenchComparison c = compare_times(times, times, kMargin);
  EXPECT_EQ(c.ratio, 1);
  EXPECT_EQ(c.ratio_interval, (Interval{1, 1}));
  EXPECT_EQ(c.difference_ns, 0);
  EXPECT_EQ(c.speed, Speed::kSame);
}

TEST(CompareTimes, AFactorIsFoundWhateverTheNoiseThatRoundsShare) {
  const RoundTimes first{{100, 1000, 50}, {300, 10, 70}}, other{{250, 2500, 125}, {750, 25, 175}};
  BenchComparison c = compare_times(first, other, kMargin);
  EXPECT_NEAR(c.ratio, 2.5, 1e-12);
  EXPECT_NEAR(c.ratio_interval.low, 2.5, 1e-12);
  EXPECT_NEAR(c.ratio_interval.high, 2.5, 1e-12);
  EXPECT_EQ(c.speed, Speed::kSlower);
  c = compare_times(other, first, kMargin);
  EXPECT_NEAR(c.ratio, 0.4, 1e-12);
  EXPECT_EQ(c.speed, Speed::kFaster);
  EXPECT_LT(c.difference_ns, 0);
}

TEST(CompareTimes, TheDifferenceIsTheMeanOfTheLaunchesMedians) {
  const BenchComparison c = compare_times({{100, 100, 100}, {100}}, {{110, 120, 900}, {140}}, kMargin);
  EXPECT_EQ(c.difference_ns, (20 + 40) / 2.0);
  EXPECT_LE(c.difference_interval.low, 30);
  EXPECT_GE(c.difference_interval.high, 30);
}

TEST(CompareTimes, LaunchesThatDisagreeTellNothing) {
  // Within each launch all is clear; between them it is not.
  const RoundTimes first(4, std::vector<double>(20, 100));
  const RoundTimes other{std::vector<double>(20, 95), std::vector<double>(20, 106), std::vector<double>(20, 97),
                         std::vector<double>(20, 105)};
  const BenchComparison c = compare_times(first, other, kMargin);
  EXPECT_EQ(c.speed, Speed::kSame);
  EXPECT_LT(c.ratio_interval.low, 1);
  EXPECT_GT(c.ratio_interval.high, 1);
}

TEST(CompareTimes, BelowTheMarginNobodyIsFaster) {
  const RoundTimes first(5, std::vector<double>(10, 1000)), other(5, std::vector<double>(10, 1005));
  EXPECT_EQ(compare_times(first, other, kMargin).speed, Speed::kSame);
  EXPECT_EQ(compare_times({{100}}, {{150}}, kMargin).speed, Speed::kSame) << "one round tells nothing of its spread";
  EXPECT_EQ(compare_times(first, other, 0.001).speed, Speed::kSlower);
}

// With noise of launches and of rounds, a model against itself is hardly ever said to be faster or slower, and the
// interval nearly always holds the true factor.
TEST(CompareTimes, IntervalsHoldWhatIsTrue) {
  std::mt19937_64 engine(1);
  std::normal_distribution<double> normal;
  auto times = [&](double scale) {
    RoundTimes t;
    for (int launch = 0; launch < 5; ++launch) {
      const double place = 1 + 0.02 * normal(engine);
      auto& rounds = t.emplace_back();
      for (int round = 0; round < 10; ++round) rounds.push_back(1e5 * scale * place * (1 + 0.03 * normal(engine)));
    }
    return t;
  };
  int held = 0, told_apart = 0, slower = 0;
  constexpr int kTries = 40;
  for (int i = 0; i < kTries; ++i) {
    const BenchComparison same = compare_times(times(1), times(1), kMargin);
    told_apart += same.speed != Speed::kSame;
    const BenchComparison other = compare_times(times(1), times(1.2), kMargin);
    slower += other.speed == Speed::kSlower;
    held += other.ratio_interval.holds(1.2);
  }
  EXPECT_LE(told_apart, 5);
  EXPECT_EQ(slower, kTries);
  EXPECT_GE(held, 35);
}

// A file with one quantized Mul, and what the runtime made of it: operators with the times that its profile gives them.
class Reasons : public ::testing::Test {
 protected:
  void SetUp() override {
    save_model(parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[1,4] x) => (float[1,4] y)
                   <float s = {0.1}, uint8 z = {128}> {
                   a = QuantizeLinear(x, s, z)
                   b = DequantizeLinear(a, s, z)
                   c = Mul(b, b)
                   d = QuantizeLinear(c, s, z)
                   y = DequantizeLinear(d, s, z)
                   })"),
               path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static BenchedModel ran(std::string form, int64_t p50_ns, std::vector<std::pair<std::string, int64_t>> operators) {
    BenchedModel m{.path = path_, .size_bytes = 100, .form = std::move(form), .p50_ns = p50_ns};
    for (auto& [op, ns] : operators) m.nodes.push_back({"", op, "CPUExecutionProvider", ns});
    return m;
  }
  static std::string why(const BenchedModel& first, BenchedModel other) {
    other.size_bytes = 50;
    std::string text;
    for (const std::string& reason : reasons(first, other, {.speed = Speed::kSlower})) text += reason + "\n";
    return text;
  }

  inline static const std::string path_ = ::testing::TempDir() + "reasons.onnx";
};

TEST_F(Reasons, WhatTheRuntimeMadeOfOtherOperatorsIsNoQuantizedLayer) {
  // Two Mul are HardSwish's in both graphs.
  const auto original = ran("float", 200'000, {{"Mul", 10}, {"Mul", 10}, {"Mul", 10}, {"Conv", 70}});
  const std::string claim = "no int8 kernel: 1 of 1 Mul";
  EXPECT_EQ(
      why(original, ran("int8", 300'000, {{"QLinearMul", 10}, {"Mul", 10}, {"Mul", 10}, {"Conv", 70}})).find(claim),
      std::string::npos);
  EXPECT_EQ(why(original, ran("int8", 300'000, {{"Mul", 10}, {"Mul", 10}, {"Conv", 70}})).find(claim),
            std::string::npos);
  EXPECT_NE(why(original, ran("int8", 300'000, {{"Mul", 10}, {"Mul", 10}, {"Mul", 10}, {"Conv", 70}})).find(claim),
            std::string::npos);
}

TEST_F(Reasons, TimesOfOperatorsArePartsOfARunsTime) {
  // The profile takes twice and three times as long as a run.
  const std::string text = why(ran("float", 200'000, {{"Conv", 300'000}, {"Relu", 100'000}}),
                               ran("int8", 300'000, {{"QLinearConv", 600'000}, {"QuantizeLinear", 300'000}}));
  EXPECT_NE(text.find("(1 QLinearConv) take about 200 µs, the float ones that they replace 150 µs"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace seqto
