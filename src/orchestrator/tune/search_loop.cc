#include "orchestrator/tune/search_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "orchestrator/study/asked.h"
#include "search/strategies/strategies.h"
#include "seqto/error.h"
#include "seqto/report.h"
#include "visualizer/format.h"

namespace seqto::internal {
namespace {

struct TimeUp {};

// References are no candidates.
bool competes(const Trial& trial, Part part) {
  return trial.part == part && trial.measurement && trial.id != "float" && trial.id != "published";
}

// "best kl 3.2e-05 at 43.84 kB": the candidate nearest to the ideal of loss and size among `latest` and those of
// `trials` that were measured on the same samples. Empty where none has a measurement.
std::string best_so_far(std::span<const Trial> trials, const Trial& latest,
                        const std::vector<std::string>& objectives) {
  const std::string loss = followed_loss(objectives);
  std::vector<Point> points;
  const auto add = [&](const Trial& trial) {
    if (competes(trial, latest.part))
      points.push_back({objective(*trial.measurement, loss), objective(*trial.measurement, "size")});
  };
  std::ranges::for_each(trials, add);
  add(latest);
  std::vector<Point> front;
  for (size_t i : pareto_front(points)) front.push_back(points[i]);
  const std::vector<size_t> best = nearest_to_ideal(front, 1);
  if (best.empty()) return "";
  const Point& point = front[best.front()];
  return fmt::format("best {} {} at {}", loss, format_figure(point[0]), format_bytes(static_cast<int64_t>(point[1])));
}

class SearchLoop {
 public:
  explicit SearchLoop(const Search& search) : s_(search), o_(search.inputs.options) {}
  bool run();

 private:
  // `reserve`: of time and trials, for those that the report needs of a search on samples of its own. However little
  // time there is, one plan is measured for it.
  const char* limit_reached(bool reserve) const;
  bool time_is_up(bool reserve) const;
  bool none_reported() const;
  int64_t reserved_trials() const;
  double report_seconds() const;  // of one plan that is reported
  size_t allowed_trials(bool reserve) const;
  // Side by side; appended in their order. False when interrupted. Those beyond the time limit are left out.
  bool measure(std::span<Proposal> proposals, int64_t expected);
  // Of the run that this one goes on with.
  std::vector<Proposal> begun_step() const;
  void tell(const Trial& trial, int64_t expected) const;
  bool note_stop(const char* limit);

  const std::vector<Trial>& trials() const { return s_.study.study.trials(); }

  const Search& s_;
  const TuneOptions& o_;
  int64_t slowest_ns_ = 0;  // of the evaluations for the report
};

bool SearchLoop::run() {
  std::vector<Proposal> begun = begun_step();
  for (std::unique_ptr<Strategy> strategy = s_.strategy();;) {
    const char* near = limit_reached(true);
    const bool goes_on = !near && !begun.empty();
    std::vector<Proposal> proposals = goes_on ? std::exchange(begun, {}) : strategy->next(s_.study.study, near);
    if (proposals.empty()) return !near || note_stop(near);
    try {
      if (!near && !goes_on && s_.learn(proposals)) {
        strategy = s_.strategy();
        continue;
      }
    } catch (const Error& error) {
      if (error.code() == Code::kInterrupted) return false;
      throw;
    }
    for (size_t done = 0; done < proposals.size();) {
      if (s_.inputs.env.cancelled()) return false;
      // What is reported has a latency: those are measured one at a time.
      const bool reported = proposals[done].part == Part::kEvaluation;
      if (const char* limit = limit_reached(!reported)) {
        // Told that the end is near, a strategy wraps up; one that has nothing to report yet would ask for ever.
        if (reported || near) return note_stop(limit);
        break;
      }
      const auto kind = [reported](const Proposal& p) { return (p.part == Part::kEvaluation) == reported; };
      const std::span<Proposal> rest = std::span(proposals).subspan(done);
      size_t count = static_cast<size_t>(std::ranges::find_if_not(rest, kind) - rest.begin());
      count = reported ? 1 : std::min(count, allowed_trials(true));
      const int64_t begin = s_.inputs.env.clock_ns();
      if (!measure(rest.first(count), strategy->expected())) return false;
      if (reported) slowest_ns_ = std::max(slowest_ns_, s_.inputs.env.clock_ns() - begin);
      done += count;
    }
  }
}

const char* SearchLoop::limit_reached(bool reserve) const {
  if (time_is_up(reserve)) return "--max-time";
  return allowed_trials(reserve) == 0 ? "--max-evaluations" : nullptr;
}

bool SearchLoop::time_is_up(bool reserve) const {
  // A short time is for the search as well: fewer of its plans are then reported, and less is told of them.
  double kept = Closing::now(o_, s_.time).kept(o_, s_.time);
  if (reserve && searches(o_)) kept += s_.time.reporting(static_cast<double>(reserved_trials()) * report_seconds());
  else kept += report_seconds();
  return !s_.time.leaves(kept) && (reserve || !searches(o_) || !none_reported());
}

double SearchLoop::report_seconds() const {
  const auto samples = static_cast<double>(s_.references.places.front().evaluation.samples.size());
  return std::max(static_cast<double>(slowest_ns_) / 1e9, s_.time.sample_seconds() * samples);
}

bool SearchLoop::none_reported() const {
  return std::ranges::none_of(trials(), [](const Trial& t) {
    return t.part == Part::kEvaluation && t.id != "float" && t.id != "published" && t.id != "full";
  });
}

int64_t SearchLoop::reserved_trials() const {
  if (!searches(o_)) return 0;
  // Uniform plans are reported from the start.
  const int64_t found =
      std::ranges::count_if(trials(), [](const Trial& t) { return t.part == Part::kSearch && t.step != kUniformStep; });
  return std::min(found, o_.max_evaluations > 0 ? std::min(o_.search.front, o_.max_evaluations / 3) : o_.search.front);
}

size_t SearchLoop::allowed_trials(bool reserve) const {
  if (o_.max_evaluations <= 0) return std::numeric_limits<size_t>::max();
  const int64_t taken = std::ssize(trials()) + (reserve ? reserved_trials() : 0);
  return static_cast<size_t>(std::max<int64_t>(0, o_.max_evaluations - taken));
}

std::vector<Proposal> SearchLoop::begun_step() const {
  return searches(o_) ? unanswered(o_.output, s_.study.study) : std::vector<Proposal>();
}

bool SearchLoop::measure(std::span<Proposal> proposals, int64_t expected) {
  const bool reported = proposals[0].part == Part::kEvaluation;
  for (size_t i = 0; i < proposals.size(); ++i) proposals[i].number = std::ssize(trials()) + static_cast<int64_t>(i);
  if (!reported) write_asked(o_.output, proposals);
  Evaluations& where = !reported && s_.elsewhere ? *s_.elsewhere : s_.here;
  try {
    const auto done = [&](Trial trial) {
      tell(trial, expected);
      s_.study.study.append(std::move(trial));
      // No error, so none that others catch. NOLINTNEXTLINE(bugprone-std-exception-baseclass)
      if (limit_reached(!reported)) throw TimeUp();
    };
    return where.measure(proposals, done, [&] { return time_is_up(!reported); });
  } catch (const Error& error) {
    if (error.code() == Code::kInterrupted) return false;
    throw;
  } catch (const TimeUp&) {
    return true;
  }
}

// In units of a search trial: one of the report takes as long as its samples are more.
void SearchLoop::tell(const Trial& trial, int64_t expected) const {
  int64_t total = expected;
  if (total > 0 && o_.max_evaluations > 0) total = std::min(total, o_.max_evaluations);
  const Place& place = s_.references.places.front();
  const size_t searched = place.search.samples.size();
  constexpr size_t kRaced = 2;  // of the search samples a candidate runs on about half
  const auto units = static_cast<int64_t>(
      searches(o_) && searched > 0 ? std::max<size_t>(1, kRaced * place.evaluation.samples.size() / searched) : 1);
  const auto is_reported = [](const Trial& t) { return t.part == Part::kEvaluation; };
  const int64_t reported = std::ranges::count_if(trials(), is_reported) + is_reported(trial);
  const int64_t count = std::ssize(trials()) + 1, done = count + reported * (units - 1);
  const int64_t reports = searches(o_) ? std::max<int64_t>(0, o_.search.front - reported) : 0;
  // A search may find more to try than it expected; its last step alone says that it is the last.
  if (total > 0) total = done + std::max<int64_t>(1, std::max<int64_t>(0, total - count - reports) + reports * units);
  s_.inputs.env.progress({"evaluate", done, total, best_so_far(trials(), trial, s_.study.ending.objectives)});
}

bool SearchLoop::note_stop(const char* limit) {
  s_.study.ending.notes.push_back(fmt::format("stopped at {} after {} trials", limit, trials().size()));
  return true;
}

}  // namespace

bool run_search(const Search& search) {
  const bool went_on = SearchLoop(search).run();
  if (went_on) remove_asked(search.inputs.options.output);
  const std::vector<Trial>& trials = search.study.study.trials();
  search.inputs.env.progress({"evaluate", std::ssize(trials), std::ssize(trials),
                              best_so_far(trials, trials.back(), search.study.ending.objectives)});
  return went_on;
}

}  // namespace seqto::internal
