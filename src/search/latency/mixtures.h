// Room: search/latency. Plans to time, so that predictions of latencies can learn from them.
#pragma once

#include <cstdint>
#include <vector>

#include "seqto/search.h"

namespace seqto::internal {

// One for each scheme that any group has beside float32.
std::vector<Plan> uniform_plans(const std::vector<SearchGroup>& groups);

// `count` plans of groups in their first static scheme and of groups in float, in growing shares: every other time by
// groups, every other time by stretches of the graph, as searches like them. Empty where there are not two groups to
// choose from. The same seed gives the same plans.
std::vector<Plan> mixtures(const std::vector<SearchGroup>& groups, size_t count, uint64_t seed);

}  // namespace seqto::internal
