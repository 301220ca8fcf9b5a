// Room: metrics. What losses are made of.
#pragma once

#include <span>

#include "seqto/metrics.h"
#include "seqto/model.h"

namespace seqto::internal {

// A row more: the values of a tensor of numbers as float32, and its dims.
void append_values(Outputs& outputs, const Tensor& tensor);

// A row more: the values of a model's first output of a float type as float32, and of its other float outputs, as long
// as these have the dims of the rows before; labels before them are passed over. Throws Error{kInvalidInput} where no
// output is float, which begins with `asked_by`, as in "[evaluate]", and where the first is longer or shorter than
// before.
void append_outputs(Outputs& outputs, std::span<const Tensor> tensors, const char* asked_by);

}  // namespace seqto::internal
