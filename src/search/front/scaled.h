// Room: search/front. Objectives of different units on one scale.
#pragma once

#include <span>
#include <vector>

#include "seqto/search.h"

namespace seqto::internal {

// Position 0..100 between the smallest and the largest finite value of each objective.
std::vector<Point> scaled(std::span<const Point> points);

}  // namespace seqto::internal
