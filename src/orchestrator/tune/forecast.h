// Room: orchestrator/tune. How long each step of a run will take, from what a sample takes and how big the layers are.
#pragma once

#include "orchestrator/tune/course.h"
#include "orchestrator/tune/inputs.h"

namespace seqto::internal {

// Within a factor of two on the networks that it was fitted to. A step that a study has behind it counts as any other.
Forecast forecast(const Inputs& inputs);

}  // namespace seqto::internal
