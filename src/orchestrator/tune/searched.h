// Room: orchestrator/tune. The search: what it chooses from, what it goes by, and what is left of it.
#pragma once

#include <string>

#include "orchestrator/tune/references.h"

namespace seqto::internal {

struct Searched {
  bool finished = true;  // not interrupted
  // How far latencies were off that were predicted; empty: too few to tell, or none.
  std::string prediction_error;
};

// Appends the trials of the strategy, and the note "what if" of one that searches.
Searched search(const Inputs& inputs, OpenStudy& study, References& references, TimeBudget& time);

}  // namespace seqto::internal
