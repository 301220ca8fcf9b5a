// Which samples of a data set are used.
#pragma once

#include <cstdint>
#include <vector>

#include "seqto/dataset.h"

namespace seqto::internal {

// `count` of 0..size-1 without replacement, ascending; the same for a seed on every platform.
std::vector<int64_t> draw(int64_t size, int64_t count, uint64_t seed);

// The indices that the options ask for. Throws Error{kInvalidInput} where more are to be drawn than there are.
std::vector<int64_t> select(int64_t size, const DatasetOptions& options);

}  // namespace seqto::internal
