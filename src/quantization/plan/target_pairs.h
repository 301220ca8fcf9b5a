// Room: quantization/plan. Which of the layers between products a file for a target has in codes, and behind which
// layers pairs stand.
#pragma once

#include "seqto/target.h"

namespace seqto::internal {

// Whether int8 products of this device add in pairs that saturate: "cpu" of x86 without VNNI.
bool pairs_saturate_on(const std::string& device);

// What take_target_forms() sets, add_joins_product, equal_input_op_types, float_between_products and, unless they were
// named, exclude_output_op_types: where the target does not say behind what pairs stand, none stand behind operators
// whose results it gives in float at no cost. What another layer reads keeps its pair.
void take_target_pairs(QuantizeOptions& options, const Target& target);

}  // namespace seqto::internal
