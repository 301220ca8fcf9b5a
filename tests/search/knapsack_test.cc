#include "search/strategies/knapsack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace seqto {
namespace {

using namespace internal;

// All plans of three groups: what the chain gives is on the lower convex hull of them.
TEST(ChainOf, PlansAreTheBestForTheirCost) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> value(0, 50);
  for (int round = 0; round < 50; ++round) {
    ChoiceTable loss, cost;
    for (int g = 0; g < 4; ++g) {
      loss.emplace_back();
      cost.emplace_back();
      for (int c = 0; c < 3; ++c) loss[g].push_back(value(random)), cost[g].push_back(value(random));
    }
    const std::vector<Assignment> chain = chain_of(loss, cost);
    for (const Assignment& plan : chain)
      for (int code = 0; code < 81; ++code) {
        const Assignment other{code % 3, code / 3 % 3, code / 9 % 3, code / 27};
        EXPECT_FALSE(total(loss, other) < total(loss, plan) && total(cost, other) <= total(cost, plan)) << round;
      }
    for (size_t i = 1; i < chain.size(); ++i) {
      EXPECT_LT(total(loss, chain[i]), total(loss, chain[i - 1]));
      EXPECT_GT(total(cost, chain[i]), total(cost, chain[i - 1]));
    }
  }
}

// All plans of four groups: none that saves as much, and what costs are rounded by, loses less.
TEST(LeastLosses, NoPlanThatSavesAsMuchLosesLess) {
  std::mt19937 random(4);
  std::uniform_int_distribution<int> value(0, 50);
  for (int round = 0; round < 50; ++round) {
    ChoiceTable loss, cost;
    double most = 0;
    for (int g = 0; g < 4; ++g) {
      loss.emplace_back(1, 0.0);
      cost.emplace_back(1, 0.0);
      for (int c = 1; c < 3; ++c) loss[g].push_back(value(random)), cost[g].push_back(-value(random));
      most -= *std::ranges::min_element(cost[g]);
    }
    loss[3][2] = std::numeric_limits<double>::infinity();
    constexpr int64_t kCount = 10;
    const std::vector<Assignment> plans = least_losses(loss, cost, shares_from(0, kCount));
    ASSERT_EQ(plans.size(), kCount);
    for (int64_t i = 1; i <= kCount; ++i) {
      const Assignment& plan = plans[static_cast<size_t>(i - 1)];
      const double asked = most * static_cast<double>(i) / kCount, rounding = 4 * most / 2000;
      bool any = false;
      for (int code = 0; code < 81; ++code) {
        const Assignment other{code % 3, code / 3 % 3, code / 9 % 3, code / 27};
        if (-total(cost, other) < asked + rounding || std::isinf(total(loss, other))) continue;
        any = true;
        EXPECT_LE(total(loss, plan), total(loss, other)) << round;
      }
      if (any) {
        EXPECT_GE(-total(cost, plan), asked - rounding) << round;
      }
      EXPECT_NE(plan[3], 2) << "it cannot run";
    }
  }
}

}  // namespace
}  // namespace seqto
