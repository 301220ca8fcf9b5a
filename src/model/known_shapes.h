// Room: model. The shapes that a graph tells of its tensors.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// Of inputs, outputs and what lies between, where a shape is told; it may have open dimensions. The graph outlives it.
std::unordered_map<std::string, const std::vector<Dimension>*> known_shapes(const Graph& graph);

}  // namespace seqto::internal
