// Room: quantization/encode. One node that moves values, on constants.
#pragma once

#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// Whether the node can move values and nothing else: Identity, Transpose, Reshape, Squeeze, Unsqueeze, Slice, Split,
// Concat.
bool moves_constant(const Node& node);
// Whether it takes its input apart: Slice, Split.
bool cuts_constant(const Node& node);
// The outputs of such a node on constants (absent inputs left out); bytes are shared where they stay in order. None
// where axes or sizes do not fit.
std::vector<Tensor> move_constant(const Node& node, const std::vector<const Tensor*>& inputs);

}  // namespace seqto::internal
