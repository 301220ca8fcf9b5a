// Room: quantization/plan. Layers that a plan names and a model does not have.
#pragma once

#include <string>
#include <vector>

#include "seqto/plan.h"

namespace seqto::internal {

struct UnknownLayers {
  std::vector<LayerId> names;
  std::string note;  // about them, a sentence; "" where there are none
};
// Nodes of bodies count too. Throws Error{kInvalidInput} where the plan has layers and all are unknown.
UnknownLayers unknown_layers(const Plan& plan, const Model& model);

}  // namespace seqto::internal
