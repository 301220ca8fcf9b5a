// Wing: quantization/read. What stays float of the constants: those that the graph makes other constants of, as by
// weight normalization or a Cast of float16, and those of layers without a scheme.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "seqto/model.h"
#include "seqto/plan.h"

namespace seqto::internal {

// The layers that have no form for such weights, as many as would have if `seqto prepare` made constants of them.
int layers_of_computed_weights(const Model& model);

// Where they are a quarter of the model or more: a sentence on what `seqto prepare` would save, one on what none of
// these schemes holds, float16 none of them. Recurrent layers have their own (take_mode).
std::vector<std::string> kept_constants(const Model& model, std::span<const Scheme> schemes);
// A sentence where bodies of If, Loop and Scan are a twentieth of the model or more; "" where they are not.
std::string kept_bodies(const Model& model);

}  // namespace seqto::internal
