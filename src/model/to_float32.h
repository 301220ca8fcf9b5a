// Room: model. A float16 model as one that computes in float32.
#pragma once

#include "seqto/model.h"

namespace seqto::internal {

// Float16 values in float32; others as they are.
Tensor to_float32(const Tensor& tensor);

// The same graph in float32: constants, casts, and the types of inputs, outputs and all between. Names stay. `values`:
// false makes all float16 constants zeros that take no memory, for questions about the graph alone. Bodies of If, Loop
// and Scan stay as they are.
Model to_float32(const Model& model, bool values = true);

// The same with its inputs and outputs as they are: casts stand behind and in front of them.
Model to_float32_inside(const Model& model);

// Whether it has operators on float16 beside those that cast it, as float32 models have behind stored halves.
bool computes_in_float16(const Model& model);

}  // namespace seqto::internal
