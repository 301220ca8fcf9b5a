// Room: orchestrator/tune. The steps of a run, how far it is and when it will end: what the line of progress tells.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "seqto/env.h"

namespace seqto::internal {

enum class Step { kFloat = 1, kCalibrate, kImprove, kSearch, kExplain, kTime };
inline constexpr int kSteps = 6;

// Tells the Course behind `env` that a step begins, which reads its samples (learns its layers) so many times.
void begin_step(Step step, const Env& env, int64_t passes = 1);

// Seconds of each step; 0: the run has no such step.
struct Forecast {
  std::array<double, kSteps> seconds{};
  double& of(Step step) { return seconds[static_cast<size_t>(step) - 1]; }
  double total() const;
};
// "measure float and int8 2 s, calibrate 3 s, improve 40 s ...: about 1:45 min"
std::string in_words(const Forecast& forecast, double limit_seconds);

// Seconds as people say them: "3 s", "4:05 min", "1:02 h".
std::string time_text(double seconds);

class Course {
 public:
  // `env` outlives it; 0 seconds: no limit.
  Course(const Env& env, double limit_seconds);
  Course(const Course&) = delete;
  // Tells of a step beyond the last: the line may go.
  ~Course();

  // `env`, but that its progress is of the run: step, share of the step, seconds to the end.
  const Env& env() const { return told_; }
  void expect(const Forecast& forecast);

 private:
  void take(const Progress& progress);
  void enter(const Progress& progress);
  // Of the step's main work, which is what its first progress is of.
  void count(const Progress& progress);
  double seconds_left();
  double now() const;

  const Env& env_;
  Env told_;
  double limit_seconds_, start_;
  std::mutex mutex_;
  Forecast forecast_;
  int step_ = 0;
  double step_start_ = 0, share_ = 0, end_ = -1;
  int64_t passes_ = 1, passed_ = 0, done_ = 0;
  std::string verb_;  // of the step's main work
};

}  // namespace seqto::internal
