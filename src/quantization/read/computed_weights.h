// Wing: quantization/read. Weights that the graph makes of constants: of weight normalization, or a Cast of float16.
#pragma once

#include "seqto/model.h"

namespace seqto::internal {

// The layers that have no form for that, as many as would have if `seqto prepare` made constants of them.
int layers_of_computed_weights(const Model& model);

}  // namespace seqto::internal
