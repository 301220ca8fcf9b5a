// What no runtime takes of a node, whatever the target.
#pragma once

#include <string>

#include "model/graph_view.h"

namespace seqto::internal {

// Why: a type that its opset does not have, as many scales as there are no channels. Empty: nothing was found.
std::string malformed(const Node& node, const GraphView& view);

}  // namespace seqto::internal
