// Why a target refuses a model: its versions, open dimensions of its inputs, or a node.
#pragma once

#include <string>

#include "seqto/target.h"

namespace seqto::internal {

// What the target refuses in any model that has it, and what to do: an opset or IR version beyond its own, open
// dimensions of inputs where it takes none; empty: nothing. What is computed from fixed inputs is mostly fixed, once
// the runtime has computed constants.
std::string model_refusal(const Model& model, const Target& target);
void require_model_taken(const Model& model, const Target& target);  // throws Error{kInvalidInput} saying that
// Of the first node that it refuses, in words; empty: it takes the model.
std::string first_refusal(const Model& model, const Target& target);

}  // namespace seqto::internal
