#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "seqto/metrics.h"

namespace seqto {
namespace {

const double kNan = std::nan("");

struct Case {
  std::vector<double> x, y;
  double tau;
};

// scipy.stats.weightedtau(x, y).statistic of scipy 1.17.
TEST(WeightedTau, KnownAnswers) {
  const Case cases[] = {
      {{12, 2, 1, 12, 2}, {1, 4, 7, 1, 0}, -0.5669496815368272},
      {{1, 2, 3, 4, 5}, {5, 4, 3, 2, 1}, -1.0},
      {{3, 1, 2, 5, 4}, {3, 1, 2, 5, 4}, 1.0},
      {{3, 1, 2, 5, 4}, {3, 1, 2, 4, 5}, 0.6715328467153284},
      {{281, 282, 285, 287, 340}, {282, 281, 285, 340, 287}, 0.5729927007299269},
      {{281, 282, 285, 287, 340}, {7, 282, 281, 999, 0}, -0.04927007299270075},
      {{1, 1, 2, 2, 3}, {1, 2, 2, 3, 3}, 0.7751673313820358},
      {{0, 0, 0, 0, 1}, {1, 0, 0, 0, 0}, -0.3355057361667903},
      {{1, 2}, {2, 1}, -1.0},
      {{1, 2}, {1, 2}, 1.0},
      {{3, 1, 2}, {1, 2, 3}, -0.36363636363636354},
      {{2, 0, 3, 1}, {2, 0, 1, 3}, -0.17333333333333314},
      {{0.5, -1.25, 3, 3, 2, 7, -8}, {1, 1, 1, 0, -2, 5, 5}, 0.20049827194984488},
      {{1, 2, kNan}, {3, 1, 2}, -0.36363636363636354},
  };
  for (const Case& c : cases) EXPECT_NEAR(weighted_tau(c.x, c.y), c.tau, 1e-14) << c.tau;
}

TEST(WeightedTau, FiveThatAgreeAreExactlyOne) {
  std::vector<double> labels{1, 20, 300, 4000, 50000};
  do {
    EXPECT_EQ(weighted_tau(labels, labels), 1.0);
  } while (std::next_permutation(labels.begin(), labels.end()));
}

TEST(WeightedTau, ConstantOrShortInputHasNoOrder) {
  EXPECT_TRUE(std::isnan(weighted_tau(std::vector<double>{1, 1, 1}, std::vector<double>{1, 2, 3})));
  EXPECT_TRUE(std::isnan(weighted_tau(std::vector<double>{1, 2, 3}, std::vector<double>{1, 1, 1})));
  EXPECT_TRUE(std::isnan(weighted_tau(std::vector<double>{1}, std::vector<double>{1})));
  EXPECT_TRUE(std::isnan(weighted_tau({}, {})));
}

}  // namespace
}  // namespace seqto
