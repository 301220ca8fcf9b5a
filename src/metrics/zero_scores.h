// Scores that tell nothing of a candidate: float's own is the worst.
#pragma once

#include <string>

#include "seqto/metrics.h"

namespace seqto::internal {

// What to say of the metrics of which the float model scores 0; empty: there are none.
std::string note_on_zero_scores(const Measurement& of_float);

}  // namespace seqto::internal
