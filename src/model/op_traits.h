// Room: model. What is known of single operators: the one place that goes by their names.
#pragma once

#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// Operators past which the runtime takes Q and DQ, as it does past MaxPool.
bool moves_values(const Node& node);

// The positions that hold what a layer computes with: no bias, no bounds, no shapes.
std::vector<size_t> data_inputs(const Node& node);

}  // namespace seqto::internal
