#include "orchestrator/tune/course.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace seqto::internal {
namespace {

struct StepWords {
  const char* name;  // in the forecast
  const char* verb;  // of the progress of its main work
};
constexpr StepWords kWords[kSteps] = {{"measure float", ""},  {"calibrate", "calibrate"}, {"improve", "round"},
                                      {"search", "evaluate"}, {"explain", "analyze"},     {"time the front", "time"}};

// Where in the forecast a step is, from 1; the others have no number.
int number_of(const Forecast& forecast, int step) {
  int number = 0;
  for (int i = 0; i < step; ++i) number += forecast.seconds[static_cast<size_t>(i)] > 0;
  return std::max(1, number);
}

}  // namespace

void begin_step(Step step, const Env& env, int64_t passes) {
  env.progress({.verb = kWords[static_cast<size_t>(step) - 1].name, .total = passes, .step = static_cast<int>(step)});
}

double Forecast::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

std::string time_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", std::max<int64_t>(whole, 1));
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole % 3600 / 60);
}

std::string in_words(const Forecast& forecast, double limit_seconds) {
  std::string text;
  for (int i = 0; i < kSteps; ++i)
    if (const double seconds = forecast.seconds[static_cast<size_t>(i)]; seconds > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kWords[i].name, time_text(seconds));
  const double total = forecast.total();
  return limit_seconds > 0 && total > limit_seconds
             ? fmt::format("{}; --max-time ends it after {}", text, time_text(limit_seconds))
             : fmt::format("{}; about {} in all", text, time_text(total));
}

Course::Course(const Env& env, double limit_seconds) : env_(env), told_(env), limit_seconds_(limit_seconds), start_(0) {
  start_ = now();
  told_.progress = [this](const Progress& progress) { take(progress); };
}

Course::~Course() {
  const int steps = number_of(forecast_, kSteps);
  if (step_ > 0) env_.progress({.verb = "done", .done = 1, .total = 1, .step = steps + 1, .steps = steps});
}

double Course::now() const { return static_cast<double>(env_.clock_ns()) / 1e9; }

void Course::expect(const Forecast& forecast) {
  const std::lock_guard lock(mutex_);
  forecast_ = forecast;
}

void Course::take(const Progress& progress) {
  Progress told = progress;
  {
    const std::lock_guard lock(mutex_);
    if (progress.step > 0) enter(progress);
    else count(progress);
    if (step_ > 0) {
      told.step = number_of(forecast_, step_);
      told.steps = number_of(forecast_, kSteps);
      told.verb = kWords[step_ - 1].name;
      told.done = std::lround(1000 * share_);
      told.total = 1000;
      told.seconds_left = seconds_left();
    }
  }
  env_.progress(told);
}

void Course::enter(const Progress& progress) {
  step_ = progress.step;
  step_start_ = now();
  share_ = 0;
  passes_ = std::max<int64_t>(1, progress.total), passed_ = done_ = 0;
  verb_ = kWords[step_ - 1].verb;
}

void Course::count(const Progress& p) {
  if (step_ == 0 || p.verb != verb_ || p.total <= 0) return;
  if (p.done < done_) ++passed_;  // the next pass
  done_ = p.done;
  const double in_pass = std::min(1.0, static_cast<double>(p.done) / static_cast<double>(p.total));
  share_ = std::max(share_, std::min(1.0, (static_cast<double>(passed_) + in_pass) / static_cast<double>(passes_)));
}

// What the step was thought to take counts less the more of it is done. An end that was told moves by and by.
double Course::seconds_left() {
  if (forecast_.total() <= 0) return -1;
  const double time = now(), spent = time - step_start_, planned = forecast_.seconds[static_cast<size_t>(step_) - 1];
  const double by_plan = std::max(planned - spent, 0.1 * planned * (1 - share_));
  const double trust = std::min(1.0, 2 * share_), by_rate = share_ > 0 ? spent * (1 - share_) / share_ : 0;
  double left = trust * by_rate + (1 - trust) * by_plan;
  for (int i = step_; i < kSteps; ++i) left += forecast_.seconds[static_cast<size_t>(i)];
  constexpr double kSmall = 0.1;
  const double end = time + left;
  if (end_ < time || std::abs(end - end_) > kSmall * left + 2) end_ = end_ < time ? end : (end_ + end) / 2;
  if (limit_seconds_ > 0) end_ = std::min(end_, start_ + limit_seconds_);
  return std::max(0.0, end_ - time);
}

}  // namespace seqto::internal
