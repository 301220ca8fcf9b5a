// Room: model. Which inputs and outputs of a node change their type together, by its operator's schema.
#pragma once

#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// Inputs and outputs of one type variable, indices into the node's lists. Outputs whose type an attribute decides
// (Cast) share no variable with an input and are in none.
struct TypeVariable {
  std::vector<size_t> inputs, outputs;
};

// The variables that may be float as well as float16 in this version of ai.onnx; none for operators without a schema.
std::vector<TypeVariable> float16_variables(const Node& node, int64_t opset);

}  // namespace seqto::internal
