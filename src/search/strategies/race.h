// Racing (Maron and Moore 1994): a candidate leaves as soon as the samples it has seen tell what the search needs to
// know of it. All candidates see the same samples in the same order, and those that most is lost on come first, so that
// a few of them tell most of the mean over all.
#pragma once

#include <span>
#include <vector>

#include "seqto/search.h"

namespace seqto::internal {

// Of each search sample: what plans lose there as a rule, in no unit.
using Difficulty = std::vector<double>;

// The mean over all samples of a candidate that was measured on the first of them.
double extrapolated(std::span<const double> losses, const Difficulty& difficulty);

// Whether a rival costs no more than the candidate and loses less, even if the candidate lost nothing on the samples
// that are left.
bool beaten(std::span<const double> losses, double size_bytes, const Race& race);

// Whether the samples seen make up `share` of the difficulty: the rest then tells less of the mean than fresh samples
// would.
bool mostly_seen(std::span<const double> losses, const Difficulty& difficulty, double share);

}  // namespace seqto::internal
