// Room: metrics/loss. Samples that a candidate answers in another shape than the float model, as where a length depends
// on values.
#pragma once

#include <span>
#include <string>

#include "seqto/metrics.h"

namespace seqto::internal {

constexpr const char* kOtherShape =
    "other_shape";  // in Measurement::samples: 1 for each of these; absent: there is none

// Sets it.
void count_other_shapes(Measurement& measurement, const Outputs& reference, const Outputs& outputs);

// What to say of one candidate, and of all that a study reports, of which `selected` may be null; empty: nothing.
std::string note_on_other_shapes(const Measurement& candidate);
std::string note_on_other_shapes(std::span<const Trial> trials, const Trial* selected);

}  // namespace seqto::internal
