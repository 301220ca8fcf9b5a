// Figures that tell nothing of a candidate: scores of which float's own is the worst, and a loss that none has.
#pragma once

#include <span>
#include <string>

#include "seqto/metrics.h"

namespace seqto::internal {

// What to say of the metrics of which the float model scores 0; empty: there are none.
std::string note_on_zero_scores(const Measurement& of_float);

// What to say where no candidate has a KL and some change the scores themselves; empty: it is not so.
std::string note_on_silent_kl(std::span<const Trial> trials);

}  // namespace seqto::internal
