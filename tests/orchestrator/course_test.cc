// The steps of a run, with an end that does not jump and stays within the limit.
#include "orchestrator/tune/course.h"

#include <gtest/gtest.h>

#include <vector>

namespace seqto::internal {
namespace {

struct Told {
  int64_t now = 1'000'000'000;
  std::vector<Progress> told;
  Env env{.progress = [this](const Progress& p) { told.push_back(p); }, .now_ns = [this] { return now; }};
  void pass(double seconds) { now += static_cast<int64_t>(seconds * 1e9); }
};

Forecast of(double calibrate, double improve, double search) {
  Forecast f;
  f.of(Step::kCalibrate) = calibrate, f.of(Step::kImprove) = improve, f.of(Step::kSearch) = search;
  return f;
}

TEST(Course, NumbersTheStepsThatThereAre) {
  Told run;
  {
    Course course(run.env, 0);
    course.expect(of(10, 0, 20));
    begin_step(Step::kCalibrate, course.env());
    EXPECT_EQ(run.told.back().step, 1);
    EXPECT_EQ(run.told.back().steps, 2);
    EXPECT_NEAR(run.told.back().seconds_left, 30, 0.1);
    begin_step(Step::kSearch, course.env());
    EXPECT_EQ(run.told.back().step, 2);
    EXPECT_EQ(run.told.back().verb, "search");
  }
  EXPECT_GT(run.told.back().step, run.told.back().steps);  // over
}

TEST(Course, ASharePassesOverItsPasses) {
  Told run;
  Course course(run.env, 0);
  course.expect(of(1, 40, 1));
  begin_step(Step::kImprove, course.env(), 2);
  course.env().progress({.verb = "round", .done = 1, .total = 2});
  EXPECT_EQ(run.told.back().done, 250);
  course.env().progress({.verb = "calibrate", .done = 9, .total = 9});  // no measure of this step
  course.env().progress({.verb = "round", .done = 2, .total = 2});
  course.env().progress({.verb = "round", .done = 0, .total = 2});
  EXPECT_EQ(run.told.back().done, 500);
  course.env().progress({.verb = "round", .done = 2, .total = 2});
  EXPECT_EQ(run.told.back().done, 1000);
}

TEST(Course, TheEndMovesByAndByAndStaysWithinTheLimit) {
  Told run;
  Course course(run.env, 60);
  course.expect(of(5, 0, 40));
  begin_step(Step::kSearch, course.env());
  double before = -1;
  for (int i = 1; i <= 50; ++i) {  // twice as slow as was thought
    run.pass(1.2);
    course.env().progress({.verb = "evaluate", .done = i, .total = 66});
    const double left = run.told.back().seconds_left, end = static_cast<double>(run.now) / 1e9 - 1 + left;
    EXPECT_LE(end, 60.001);
    if (before > 0) {
      EXPECT_LT(std::abs(end - before), 12) << i;
    }
    before = end;
  }
}

TEST(Course, WordsTellEveryStepAndTheLimit) {
  EXPECT_EQ(in_words(of(3, 0, 90), 0), "calibrate 3 s, search 1:30 min; about 1:33 min in all");
  EXPECT_EQ(in_words(of(3, 0, 90), 60), "calibrate 3 s, search 1:30 min; --max-time ends it after 1:00 min");
}

}  // namespace
}  // namespace seqto::internal
