// Room: orchestrator/tune. What a search has found by now, in the words of a progress line.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "seqto/metrics.h"

namespace seqto::internal {

// "best so far kl 3.2e-05 at 43.84 kB": the candidate nearest to the ideal of loss and size among `latest` and those of
// `trials` that were measured on the same samples. Empty where none has a measurement.
std::string best_so_far(std::span<const Trial> trials, const Trial& latest, const std::vector<std::string>& objectives);

}  // namespace seqto::internal
