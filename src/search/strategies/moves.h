// Plans near those of the front that are expected, or hoped, to be better than it.
#pragma once

#include "search/strategies/archive.h"
#include "search/strategies/loss_model.h"

namespace seqto::internal {

// At most `count` plans that the archive does not hold, most promising first: one group of a plan of the front moved to
// another choice (with latency among the objectives also all that share a tensor to one scheme), or two such moves
// against each other so that what the one costs the other saves. Expected losses are the plan's own plus what the model
// says of the moves, less a share of that: moves that might well turn out better than expected are worth a try. One
// plan each of the front's, so that all of it advances. Where the search has bounds half of them are to lose less than
// any plan within those.
std::vector<Assignment> promising_moves(const Archive& archive, Assignments& assignments, const LossModel& losses,
                                        size_t count);

}  // namespace seqto::internal
