// Which plans of a search are measured for the report.
#pragma once

#include "search/strategies/archive.h"

namespace seqto::internal {

// So many of the front's entries, in its order. The ends of every objective stay, also beyond `count`; then always the
// one goes whose neighbours cover best for it (the least volume of its own, losses on a logarithmic scale). Where a
// task metric is an objective, a third of them may be of its front; where the search has bounds, a sixth are the plans
// within them that lose least, an eighth such with 5 % of room.
std::vector<const Entry*> finalists(const Archive& archive, size_t count);
// Those of them that are still to be measured for it.
std::vector<Proposal> finalists_to_measure(const Archive& archive, const Assignments& assignments, int64_t count);

}  // namespace seqto::internal
