// Room: quantization/arithmetic. One node on constants: the few ops that unfold stored weights.
#pragma once

#include <optional>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// The output of a Cast, Sub, Mul, BitShift, Concat, Reshape, Slice or Transpose on constants; nothing for other nodes.
std::optional<Tensor> fold_constant(const Node& node, const std::vector<const Tensor*>& inputs);

}  // namespace seqto::internal
