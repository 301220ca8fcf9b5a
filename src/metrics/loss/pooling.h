// Room: metrics/loss. One vector of a sequence's features.
#pragma once

#include <span>
#include <vector>

#include "seqto/metrics.h"

namespace seqto::internal {

// Of length 1 (all 0 where there is no feature but 0). `values`: position after position, `features` each. pooling is
// not kNone. NaN stays, which is near to nothing.
std::vector<float> pooled(std::span<const float> values, size_t features, Pooling pooling);

}  // namespace seqto::internal
