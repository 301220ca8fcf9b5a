// Room: orchestrator/tune. The loop of `tune`: ask the strategy for plans, have the candidates measured, append the
// trials, and ask again, within the limits.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "orchestrator/tune/evaluations.h"
#include "seqto/search.h"

namespace seqto::internal {

// All of it outlives the loop.
struct Search {
  const Inputs& inputs;
  OpenStudy& study;
  References& references;
  const TimeBudget& time;
  Evaluations& here;
  Evaluations* elsewhere = nullptr;  // of what is measured on search and acceptance samples; null: here
  std::function<std::unique_ptr<Strategy>()> strategy;
  // Whether what the strategy goes by has changed for these proposals, so that it is to be made again.
  std::function<bool(std::span<const Proposal>)> learn;
};

// Until the strategy has no more to ask, or a limit is reached, which the ending's notes then say. False when
// interrupted, or where results are told at another time. Whoever goes on with the study goes on with the step's
// proposals as they were.
bool run_search(const Search& search);

}  // namespace seqto::internal
