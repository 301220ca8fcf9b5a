// What each choice of each group is expected to add to the loss: losses of one choice at a time as a prior, corrected
// by what mixed plans turned out to lose. Losses are taken to add up, which holds better the nearer two plans are.
#pragma once

#include "search/archive.h"

namespace seqto::internal {

// Of the scheme's uniform plan on the search samples; 0 where it was not measured or failed.
double uniform_loss(const Archive& archive, const Assignments& assignments, const DetailedScheme& scheme);

// Differences of loss below this are not worth a move: a ten-thousandth of what the worst uniform plan loses on the
// search samples.
double negligible_loss(const Archive& archive, const Assignments& assignments);

// What the mildest uniform plan, float16 aside, loses on the search samples; infinity where none was measured.
double mildest_loss(const Archive& archive, const Assignments& assignments);

// Losses of the search samples where one choice alone differs from float32, measured or shared out: a scheme whose
// uniform plan loses next to nothing is not measured group by group. Zero for float32.
ChoiceTable one_in_losses(const Archive& archive, Assignments& assignments);

// The prior, scaled for each scheme to its uniform plan, then fitted to all entries with a loss on the search samples:
// ridge regression of relative residuals (a plan that loses twice as much may be off by twice as much), towards the
// prior with half its size as the standard deviation. Never below a tenth of the prior.
ChoiceTable fitted_losses(const Archive& archive, Assignments& assignments, const ChoiceTable& one_in);

}  // namespace seqto::internal
