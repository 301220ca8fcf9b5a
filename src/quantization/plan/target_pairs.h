// Room: quantization/plan. Behind which layers a file for a target has pairs.
#pragma once

#include "seqto/target.h"

namespace seqto::internal {

// Sets options.exclude_output_op_types, unless they were named: where the target does not say behind what pairs stand,
// none stand behind operators whose results it gives in float at no cost. What another layer reads keeps its pair.
void take_target_pairs(QuantizeOptions& options, const Target& target);

}  // namespace seqto::internal
