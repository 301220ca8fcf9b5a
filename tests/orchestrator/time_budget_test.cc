#include "orchestrator/tune/time_budget.h"

#include <gtest/gtest.h>

namespace seqto::internal {
namespace {

struct Clock {
  int64_t now = 5'000'000'000;
  Env env{.now_ns = [this] { return now; }};
  void pass(double seconds) { now += static_cast<int64_t>(seconds * 1e9); }
};

TEST(TimeBudget, LeavesWhatEndsWithinIt) {
  Clock clock;
  const TimeBudget limit(10, clock.env);
  clock.pass(4);
  EXPECT_DOUBLE_EQ(limit.spent(), 4);
  EXPECT_TRUE(limit.leaves(5.9));
  EXPECT_FALSE(limit.leaves(6));
  clock.pass(7);
  EXPECT_FALSE(limit.leaves(0));
}

TEST(TimeBudget, ZeroIsNone) {
  Clock clock;
  const TimeBudget none(0, clock.env);
  clock.pass(1e6);
  EXPECT_TRUE(none.leaves(1e9));
  EXPECT_DOUBLE_EQ(none.at_most(1e9, 0.5), 1e9);
}

TEST(TimeBudget, SharesAreCaps) {
  Clock clock;
  const TimeBudget limit(12, clock.env);
  EXPECT_DOUBLE_EQ(limit.at_most(3, 0.25), 3);
  EXPECT_DOUBLE_EQ(limit.at_most(4, 0.25), 3);
}

TEST(TimeBudget, SharesOfASearchBeginWhenTheyAreFirstAskedFor) {
  Clock clock;
  const TimeBudget none(0, clock.env), limit(20, clock.env);
  EXPECT_FALSE(none.share_spent(1));
  const auto share = limit.share_spent(4);
  clock.pass(6);
  EXPECT_DOUBLE_EQ(share(), 0);
  const auto copy = share;  // of a strategy that is made anew
  clock.pass(5);
  EXPECT_DOUBLE_EQ(copy(), 0.5);
  clock.pass(5);
  EXPECT_DOUBLE_EQ(share(), 1);
  clock.pass(50);
  EXPECT_DOUBLE_EQ(share(), 1);
  EXPECT_DOUBLE_EQ(limit.share_spent(30)(), 1);
}

TEST(TimeBudget, FewCandidatesAreMeasuredOnce) {
  Clock clock;
  const TimeBudget none(0, clock.env), limit(300, clock.env);
  EXPECT_TRUE(none.lasts_for_search(1e6));
  EXPECT_TRUE(limit.lasts_for_search(9));
  EXPECT_FALSE(limit.lasts_for_search(11));
  EXPECT_NEAR(limit.short_evaluation_pass() * 3, limit.evaluation_pass(), 1e-9);
}

TEST(TimeBudget, WhatASampleTakesFollowsTheMachine) {
  Clock clock;
  double probe_seconds = 0.01;
  TimeBudget limit(100, clock.env);
  EXPECT_DOUBLE_EQ(limit.slowdown(), 1);
  limit.took(0.02, [&] { clock.pass(probe_seconds); });
  EXPECT_DOUBLE_EQ(limit.sample_seconds(), 0.02);
  probe_seconds = 0.05;  // other work has come
  EXPECT_DOUBLE_EQ(limit.sample_seconds(), 0.02) << "looked at not long ago";
  clock.pass(2.5);
  EXPECT_NEAR(limit.slowdown(), 3, 1e-6) << "the mean of the last two looks";
  clock.pass(2.5);
  EXPECT_NEAR(limit.sample_seconds(), 0.02 * 4, 1e-6);
  probe_seconds = 0.001;
  for (int k = 0; k < 9; ++k) clock.pass(2.5), limit.slowdown();
  EXPECT_DOUBLE_EQ(limit.slowdown(), 1) << "no faster than it was: that is luck";
}

TEST(TimeBudget, AStepEndsWithItsTime) {
  Clock clock;
  bool interrupted = false;
  clock.env.cancelled = [&] { return interrupted; };
  const TimeBudget limit(100, clock.env), none(0, clock.env);
  const auto step = [&](const Env& env) {
    for (int k = 0; k < 10; ++k) clock.pass(1), env.stop_if_cancelled("step");
    return 7;
  };
  EXPECT_EQ(in_time(limit, 11, clock.env, step), 7);
  EXPECT_EQ(in_time(limit, 5, clock.env, step), std::nullopt);
  EXPECT_EQ(in_time(none, 5, clock.env, step), 7);
  const auto quick = [&](const Env& env) { return clock.pass(0.5), env.stop_if_cancelled("step"), 7; };
  EXPECT_EQ(in_time(limit, -3, clock.env, quick), 7) << "a second at least";
  interrupted = true;
  EXPECT_THROW(in_time(limit, 5, clock.env, step), Error);
}

TEST(Closing, KeepsMoreForASlowModelAndForLatency) {
  Clock clock;
  const TimeBudget none(0, clock.env), short_time(6, clock.env);
  TuneOptions options{.search = {.objectives = {"kl", "size"}, .front = 4}, .ranking_samples = 10};
  const Closing fast = Closing::of(options, 0.001), slow = Closing::of(options, 0.1);
  EXPECT_DOUBLE_EQ(fast.kept(options, none), 0.196 + 1);
  EXPECT_DOUBLE_EQ(slow.kept(options, none), 19.6 + 1);
  EXPECT_DOUBLE_EQ(slow.kept(options, short_time), 1);
  options.search.objectives.emplace_back("latency");
  EXPECT_DOUBLE_EQ(fast.kept(options, none), 0.196 + 1 + 4 * (0.062 + 0.005));
}

}  // namespace
}  // namespace seqto::internal
