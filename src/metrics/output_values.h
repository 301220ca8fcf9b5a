// Room: metrics. What losses are made of.
#pragma once

#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// The values of a model's first output, which losses compare: of any float type, as float32. Throws Error{kInvalidInput}
// for other types, which begins with `asked_by`, as in "[evaluate]".
std::vector<float> output_values(const Tensor& first, const char* asked_by);

}  // namespace seqto::internal
