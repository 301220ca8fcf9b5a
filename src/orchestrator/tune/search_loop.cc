#include "orchestrator/tune/search_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "orchestrator/tune/best_so_far.h"
#include "orchestrator/tune/tune_options.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

struct TimeUp {};

}  // namespace

bool SearchLoop::run(const std::function<std::unique_ptr<Strategy>()>& make) {
  if (!searches(c_.options)) last_ = c_.candidate(c_.study.trials().back().plan);
  for (std::unique_ptr<Strategy> strategy = make();;) {
    const char* near = limit_reached(true);
    std::vector<Proposal> proposals = strategy->next(c_.study, near);
    if (proposals.empty()) return !near || note_stop(near);
    try {
      if (!near && c_.learn && c_.learn(proposals)) {
        strategy = make();
        continue;
      }
    } catch (const Error& error) {
      if (error.code() == Code::kInterrupted) return false;
      throw;
    }
    for (size_t done = 0; done < proposals.size();) {
      if (c_.env.cancelled()) return false;
      // What is reported has a latency: those are measured one at a time.
      const bool reported = proposals[done].part == Part::kEvaluation;
      if (const char* limit = limit_reached(!reported)) {
        if (reported) return note_stop(limit);
        break;  // the strategy wraps up
      }
      const auto kind = [reported](const Proposal& p) { return (p.part == Part::kEvaluation) == reported; };
      const std::span<Proposal> rest = std::span(proposals).subspan(done);
      size_t count = static_cast<size_t>(std::ranges::find_if_not(rest, kind) - rest.begin());
      count = reported ? 1 : std::min(count, allowed_trials(true));
      const int64_t begin = c_.env.clock_ns();
      if (!measure(rest.first(count), strategy->expected())) return false;
      if (reported) slowest_ns_ = std::max(slowest_ns_, c_.env.clock_ns() - begin);
      done += count;
    }
  }
}

const char* SearchLoop::limit_reached(bool reserve) const {
  const TuneOptions& o = c_.options;
  // A short time is for the search as well: fewer of its plans are then reported, and less is told of them.
  double kept = c_.closing_seconds();
  if (reserve && searches(o))
    kept += c_.time.at_most(static_cast<double>(reserved_trials()) * report_seconds(), 1.0 / 3);
  else kept += report_seconds();
  if (!c_.time.leaves(kept) && (reserve || !searches(o) || !none_reported())) return "--max-time";
  return allowed_trials(reserve) == 0 ? "--max-evaluations" : nullptr;
}

double SearchLoop::report_seconds() const {
  const auto samples = static_cast<double>(c_.places.front().evaluation.samples.size());
  return std::max(static_cast<double>(slowest_ns_) / 1e9, c_.time.sample_seconds() * samples);
}

bool SearchLoop::none_reported() const {
  return std::ranges::none_of(c_.study.trials(), [](const Trial& t) {
    return t.part == Part::kEvaluation && t.id != "float" && t.id != "published" && t.id != "full";
  });
}

int64_t SearchLoop::reserved_trials() const {
  const TuneOptions& o = c_.options;
  if (!searches(o)) return 0;
  // Uniform plans are reported from the start.
  const int64_t found = std::ranges::count_if(
      c_.study.trials(), [](const Trial& t) { return t.part == Part::kSearch && t.step != "uniform"; });
  return std::min(found, o.max_evaluations > 0 ? std::min(o.max_front, o.max_evaluations / 3) : o.max_front);
}

size_t SearchLoop::allowed_trials(bool reserve) const {
  if (c_.options.max_evaluations <= 0) return std::numeric_limits<size_t>::max();
  const int64_t trials = std::ssize(c_.study.trials()) + (reserve ? reserved_trials() : 0);
  return static_cast<size_t>(std::max<int64_t>(0, c_.options.max_evaluations - trials));
}

// Nothing where the published search comes by the same candidate again.
std::optional<Model> SearchLoop::made(const Proposal& proposal) {
  std::lock_guard lock(making_);  // a Quantizer makes one candidate at a time
  Model model = (proposal.part == Part::kEvaluation ? c_.reported : c_.candidate)(proposal.plan);
  if (searches(c_.options)) return model;
  if (equal(model, *last_)) return {};
  return last_ = std::move(model);
}

bool SearchLoop::measure(std::span<Proposal> proposals, int64_t expected) {
  std::vector<Trial> trials(proposals.size());
  const bool reserve = proposals[0].part != Part::kEvaluation;
  try {
    for_each_in_order(
        proposals.size(), static_cast<size_t>(c_.options.jobs),
        [&](size_t i) {
          Proposal& proposal = proposals[i];
          Trial& trial = trials[i];
          const auto model = made(proposal);
          if (!model) return;
          trial.plan = std::move(proposal.plan);
          trial.id = trial.plan.hash();
          trial.excluded = std::move(proposal.excluded);
          trial.part = proposal.part;
          trial.step = std::move(proposal.step);
          trial = evaluate(*model, std::move(trial), c_.places, c_.env, c_.prefixes, proposal.enough);
        },
        [&](size_t i) {
          if (trials[i].id.empty()) return;
          tell(trials[i], expected);
          c_.study.append(std::move(trials[i]));
          if (limit_reached(reserve)) throw TimeUp();
        });
  } catch (const Error& error) {
    if (error.code() == Code::kInterrupted) return false;
    throw;
  } catch (const TimeUp&) {
  }
  return true;
}

void SearchLoop::tell(const Trial& trial, int64_t expected) const {
  const int64_t done = std::ssize(c_.study.trials()) + 1;
  int64_t total = expected;
  if (total > 0 && c_.options.max_evaluations > 0) total = std::min(total, c_.options.max_evaluations);
  // A search may find more to try than it expected; its last step alone says that it is the last.
  if (total > 0) total = std::max(total, done + 1);
  c_.env.progress({"evaluate", done, total, best_so_far(c_.study.trials(), trial, c_.options.objectives)});
}

bool SearchLoop::note_stop(const char* limit) {
  c_.ending.notes.push_back(fmt::format("stopped at {} after {} trials", limit, c_.study.trials().size()));
  return true;
}

}  // namespace seqto::internal
