// Wing: quantization/read. Nodes whose numbers no two models share.
#pragma once

#include <string>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// What it means for figures that two models are compared by; empty where there are none.
std::vector<std::string> random_nodes(const Model& model);

}  // namespace seqto::internal
