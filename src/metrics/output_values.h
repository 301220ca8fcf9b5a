// Room: metrics. What losses are made of.
#pragma once

#include "seqto/metrics.h"
#include "seqto/model.h"

namespace seqto::internal {

// A row more: the values of a model's first output, of any float type, as float32. Throws Error{kInvalidInput} for
// other types, which begins with `asked_by`, as in "[evaluate]", and where the row is longer or shorter than those
// before.
void append_output(Outputs& outputs, const Tensor& first, const char* asked_by);

}  // namespace seqto::internal
