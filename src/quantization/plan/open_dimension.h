// Why a target refuses a model: open dimensions of its inputs, or a node.
#pragma once

#include <string>

#include "seqto/target.h"

namespace seqto::internal {

// The open dimensions of the model's inputs, and the command that sets them, in words; empty where there are none
// or the target does not mind. What is computed from fixed inputs is mostly fixed, once the runtime has computed
// constants.
std::string open_dimension(const Target& target, const Graph& graph);
// Of the first node that it refuses, in words; empty: it takes the model.
std::string first_refusal(const Model& model, const Target& target);
void require_fixed_shapes(const Model& model, const Target& target);  // throws Error{kInvalidInput} saying that

}  // namespace seqto::internal
