// Room: model. Optional inputs that a constant without elements stands in for.
#pragma once

#include "seqto/model.h"

namespace seqto::internal {

// Leaves such an input out where the operator takes that for the same; bodies of If, Loop and Scan included. Returns
// how many. Opset 11 wants every input of Resize there, so exporters give it an empty `roi` and empty `scales` beside
// `sizes`; from opset 13 on what is there counts, and runtimes refuse `scales` and `sizes` together.
int drop_empty_inputs(Model& model);

}  // namespace seqto::internal
