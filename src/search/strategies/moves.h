// Plans near those of the front that are expected, or hoped, to be better than it.
#pragma once

#include "search/strategies/archive.h"

namespace seqto::internal {

// At most `count` plans that the archive does not hold, most promising first: one group of a plan of the front moved to
// another choice, or two such moves against each other so that what the one costs the other saves. Expected losses are
// the plan's own plus what `losses` says of the moves. One plan each of the front's, so that all of it advances. Where
// the search has bounds half of them are to lose less than any plan within those.
std::vector<Assignment> promising_moves(const Archive& archive, Assignments& assignments, const ChoiceTable& losses,
                                        size_t count);

}  // namespace seqto::internal
