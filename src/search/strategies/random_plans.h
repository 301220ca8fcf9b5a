// Plans drawn at random.
#pragma once

#include "search/strategies/assignments.h"

namespace seqto::internal {

// Each with a share of its own, 0 to 1, of the groups that are not float32; those take each of their choices alike.
std::vector<Assignment> random_plans(const Assignments& assignments, size_t count, uint64_t seed);

}  // namespace seqto::internal
