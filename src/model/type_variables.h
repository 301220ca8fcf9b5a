// Room: model. What an operator's schema says of types: which inputs and outputs of a node change theirs together, and
// which of them it does not take.
#pragma once

#include <string>
#include <unordered_map>
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

// Why this version of ai.onnx has no such node: "int4 of 'w' found; opset 17 takes int8, uint8, int32". Empty where it
// has one, or where the types or the operator are not known.
std::string type_refusal(const Node& node, int64_t opset, const std::unordered_map<std::string, DataType>& types);

// Operators of ai.onnx, of any version, in the order of the alphabet.
const std::vector<std::string>& standard_operators();

}  // namespace seqto::internal
