// Room: orchestrator/tune. The loop of `tune`: ask the strategy for plans, make the candidates, measure them, append
// the trials, and ask again, within the limits.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "orchestrator/tune/references.h"
#include "seqto/search.h"

namespace seqto::internal {

// All of it outlives the loop.
struct Search {
  const Inputs& inputs;
  OpenStudy& study;
  References& references;
  const TimeBudget& time;
  const Prefixes* prefixes = nullptr;  // null: candidates run from the inputs on
  std::function<std::unique_ptr<Strategy>()> strategy;
  // Whether what the strategy goes by has changed for these proposals, so that it is to be made again.
  std::function<bool(std::span<const Proposal>)> learn;
  std::function<Model(const Plan&)> reported;  // of a plan for the report
};

// Until the strategy has no more to ask, or a limit is reached, which the ending's notes then say. False when
// interrupted. The published search skips candidates that equal the one before.
bool run_search(const Search& search);

}  // namespace seqto::internal
