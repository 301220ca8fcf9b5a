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

// Whether the first `seen` samples are enough to go by: `race_samples`, or fewer where what is lost on them does not
// lie on one or two as a rule. They count as (sum d)^2 / sum d^2 samples of equal difficulty d, `race_several` of which
// are.
bool are_several(size_t seen, const Difficulty& difficulty, const SearchTuning& tuning);

// The mean over all samples of a candidate that was measured on the first of them.
double extrapolated(std::span<const double> losses, const Difficulty& difficulty);

struct Costs {
  double size = 0, latency = 0;  // the latency is predicted; 0 where it is no objective
};
struct Rival {
  Costs costs;
  double loss = 0;
};
struct Field {
  std::span<const Rival> rivals;
  const Difficulty& difficulty;
  const SearchTuning& tuning;
};
// Whether a rival costs no more than the candidate and loses less, even if the candidate lost but the share `race_rest`
// of what is expected on the samples that are left.
bool beaten(std::span<const double> losses, const Costs& costs, const Field& field);

// Whether the samples seen make up `race_seen` of the difficulty: the rest then tells less of the mean than fresh
// samples would.
bool mostly_seen(std::span<const double> losses, const Difficulty& difficulty, const SearchTuning& tuning);

}  // namespace seqto::internal
