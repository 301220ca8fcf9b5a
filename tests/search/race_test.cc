#include "search/strategies/race.h"

#include <gtest/gtest.h>

namespace seqto::internal {
namespace {

const Difficulty kDifficulty{8, 4, 2, 1, 1};  // 16 in all
const SearchTuning kTuning;

TEST(Race, ExtrapolatesByWhatPlansLoseAsARule) {
  const std::vector<double> twice{0.16, 0.08};  // 0.02 for each unit of difficulty
  EXPECT_NEAR(extrapolated(twice, kDifficulty), 0.02 * 16 / 5, 1e-15);
  const std::vector<double> whole{5, 4, 3, 2, 1};
  EXPECT_DOUBLE_EQ(extrapolated(whole, kDifficulty), 3);
  EXPECT_DOUBLE_EQ(extrapolated(twice, {0, 0, 1}), 0.12) << "nothing is known of these";
}

TEST(Race, OneHardSampleIsNoMeasure) {
  EXPECT_TRUE(are_several(3, {1, 1, 1, 1}, kTuning));
  EXPECT_FALSE(are_several(2, {1, 1, 1, 1}, kTuning));
  EXPECT_FALSE(are_several(4, {100, 1, 1, 1}, kTuning));
  EXPECT_TRUE(are_several(8, {100, 1, 1, 1, 1, 1, 1, 1, 1}, kTuning));
}

TEST(Race, AThirdOfTheDifficultyTellsMost) {
  const std::vector<double> losses{1, 1};
  EXPECT_TRUE(mostly_seen(std::span(losses).first(1), kDifficulty, kTuning));
  EXPECT_FALSE(mostly_seen(losses, {1, 2, 4, 8}, kTuning));
  EXPECT_TRUE(mostly_seen(losses, {1, 2, 3, 3}, kTuning));
}

TEST(Race, IsLostToWhatCostsNoMoreAndLosesLess) {
  const std::vector<double> losses{0.8};  // 0.16 of the mean so far, 0.32 expected, 0.24 at least
  const auto lost = [&](const Rival& rival) {
    return beaten(losses, {.size = 100, .latency = 10}, {std::span(&rival, 1), kDifficulty, kTuning});
  };
  EXPECT_TRUE(lost({{100, 10}, 0.23}));
  EXPECT_FALSE(lost({{100, 10}, 0.25})) << "half of what is left may not be lost";
  EXPECT_FALSE(lost({{101, 10}, 0.1})) << "larger";
  EXPECT_FALSE(lost({{100, 11}, 0.1})) << "slower";
}

}  // namespace
}  // namespace seqto::internal
