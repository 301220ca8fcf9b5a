#include "search/strategies/race.h"

#include <gtest/gtest.h>

namespace seqto::internal {
namespace {

const Difficulty kDifficulty{8, 4, 2, 1, 1};  // 16 in all

TEST(Race, ExtrapolatesByWhatPlansLoseAsARule) {
  const std::vector<double> twice{0.16, 0.08};  // 0.02 for each unit of difficulty
  EXPECT_NEAR(extrapolated(twice, kDifficulty), 0.02 * 16 / 5, 1e-15);
  const std::vector<double> whole{5, 4, 3, 2, 1};
  EXPECT_DOUBLE_EQ(extrapolated(whole, kDifficulty), 3);
  EXPECT_DOUBLE_EQ(extrapolated(twice, {0, 0, 1}), 0.12) << "nothing is known of these";
}

TEST(Race, AThirdOfTheDifficultyTellsMost) {
  const std::vector<double> losses{1, 1};
  EXPECT_TRUE(mostly_seen(std::span(losses).first(1), kDifficulty, 1.0 / 3));
  EXPECT_FALSE(mostly_seen(losses, {1, 2, 4, 8}, 1.0 / 3));
  EXPECT_TRUE(mostly_seen(losses, {1, 2, 3, 3}, 1.0 / 3));
}

TEST(Race, IsLostToWhatCostsNoMoreAndLosesLess) {
  const std::vector<double> losses{0.8};  // 0.16 of the mean, whatever the rest comes to
  const auto lost = [&](const Race::Rival& rival) {
    return beaten(losses, 100, {.difficulty = kDifficulty, .rivals = {rival}, .latency_ns = 10});
  };
  EXPECT_TRUE(lost({100, 10, 0.15}));
  EXPECT_FALSE(lost({100, 10, 0.17})) << "nothing more may be lost on what is left";
  EXPECT_FALSE(lost({101, 10, 0.1})) << "larger";
  EXPECT_FALSE(lost({100, 11, 0.1})) << "slower";
}

}  // namespace
}  // namespace seqto::internal
