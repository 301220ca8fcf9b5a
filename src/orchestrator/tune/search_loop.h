// Room: orchestrator/tune. The loop of `tune`: ask the strategy for plans, make the candidates, measure them, append
// the trials, and ask again, within the limits.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "orchestrator/study/notes.h"
#include "orchestrator/tune/evaluate.h"
#include "orchestrator/tune/time_limit.h"
#include "seqto/search.h"
#include "seqto/tune.h"

namespace seqto::internal {

class SearchLoop {
 public:
  // All of it outlives the loop. `candidate` makes the model of a plan, `reported` that of a plan for the report, one
  // at a time; `learn` may be empty, `prefixes` null; `closing_seconds`: what follows the search takes, and is to have.
  struct Context {
    const TuneOptions& options;
    const Env& env;
    Study& study;
    std::span<const Place> places;
    std::function<Model(const Plan&)> candidate, reported;
    std::function<bool(std::span<const Proposal>)> learn;
    const Prefixes* prefixes = nullptr;
    Ending& ending;
    const TimeLimit& time;
    std::function<double()> closing_seconds;
  };
  explicit SearchLoop(Context context) : c_(std::move(context)) {}

  // Until the strategy has no more to ask, or a limit is reached, which the ending's notes then say. False when
  // interrupted. The published search skips candidates that equal the one before. `make` makes the strategy, again
  // whenever `learn` says of its proposals that what it goes by has changed.
  bool run(const std::function<std::unique_ptr<Strategy>()>& make);

 private:
  // `reserve`: of time and trials, for those that the report needs of a search on samples of its own. However little
  // time there is, one plan is measured for it.
  const char* limit_reached(bool reserve) const;
  bool none_reported() const;
  int64_t reserved_trials() const;
  double report_seconds() const;  // of one plan that is reported
  size_t allowed_trials(bool reserve) const;
  // Side by side; appended in their order. False when interrupted. Those beyond the time limit are left out.
  bool measure(std::span<Proposal> proposals, int64_t expected);
  std::optional<Model> made(const Proposal& proposal);
  void tell(const Trial& trial, int64_t expected) const;
  bool note_stop(const char* limit);

  Context c_;
  std::optional<Model> last_;  // of the published search: the candidate before
  std::mutex making_;
  int64_t slowest_ns_ = 0;  // of the evaluations for the report
};

}  // namespace seqto::internal
