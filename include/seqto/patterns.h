// Room: quantization. Patterns of layers: globs on node names, or `op:Conv`.
#pragma once

#include <string>
#include <vector>

#include "seqto/model.h"

namespace seqto {

// The names of the nodes that any pattern matches, in graph order. Throws Error{kUsage} with the nearest names for a
// pattern that matches nothing.
std::vector<LayerId> expand_patterns(const std::vector<std::string>& patterns, const Model& model);

}  // namespace seqto
