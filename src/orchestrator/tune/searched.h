// Room: orchestrator/tune. The search: what it chooses from, what it goes by, and what is left of it.
#pragma once

#include <string>

#include "orchestrator/tune/evaluations.h"

namespace seqto::internal {

struct Searched {
  bool finished = true;  // not interrupted, and not waiting for results
  // How far latencies were off that were predicted; empty: too few to tell, or none.
  std::string prediction_error;
};

// What measures on search and acceptance samples.
struct Elsewhere {
  Evaluations* evaluations = nullptr;  // null: this process
  bool ends_before_report = false;     // what is measured for the report when all else is done is left to another run
};

// Appends the trials of the strategy, and at its end the note "what if" of one that searches.
Searched search(const Inputs& inputs, OpenStudy& study, References& references, TimeBudget& time,
                const Elsewhere& elsewhere = {});

}  // namespace seqto::internal
