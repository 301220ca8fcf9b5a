// What plans are expected to lose: losses of one choice at a time, which are taken to add up.
#pragma once

#include "search/strategies/archive.h"

namespace seqto::internal {

// Of the scheme's uniform plan on the search samples; 0 where it was not measured or failed.
double uniform_loss(const Archive& archive, const Assignments& assignments, const DetailedScheme& scheme);

// Differences of loss below this are not worth a move: a share of what the worst uniform plan loses on the search
// samples.
double negligible_loss(const Archive& archive, const Assignments& assignments);

// What the mildest uniform plan, float16 aside, loses on the search samples; infinity where none was measured.
double mildest_loss(const Archive& archive, const Assignments& assignments);

// Losses on the search samples where one choice alone differs from float32, scaled for each scheme to its uniform plan:
// what a tensor loses in 8 bits is seen at each layer that writes or reads it, and lost once. A choice that was not
// measured has its share of the uniform plan by the bytes that it saves; one that failed counts as much worse than
// anything that ran. Zero for float32.
ChoiceTable expected_losses(const Archive& archive, Assignments& assignments);
// The same as measured: what a uniform plan loses may be a few groups' doing, and say little of the others.
ChoiceTable unscaled_losses(const Archive& archive, Assignments& assignments);

}  // namespace seqto::internal
