// Room: quantization/read. Why a target's rule does not take a product: its sizes, and weights in codes that stand
// beside floats.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "quantization/read/runtime_faults.h"
#include "seqto/target.h"

namespace seqto::internal {

std::string types_text(const std::vector<DataType>& types);
bool contains(const std::vector<DataType>& types, DataType type);  // no types: any

// All of these: empty where nothing is refused.

// `weight`: the shape of the second input.
std::string size_refusal(const Node& node, const TargetRule& rule, std::span<const int64_t> weight);
// Of products with one row: a vector times a matrix. What is not known counts as many.
std::string row_refusal(const Node& node, const TargetRule& rule, const Surroundings& around);
// Of a product with codes of a weight beside a float activation: one scale, one for each output, or one for each block
// along the sum.
std::string stored_refusal(const Node& node, const TargetRule& rule, const Surroundings& around);

}  // namespace seqto::internal
