// Room: orchestrator/tune. How long each step of a run will take, from what a sample takes and how big the layers are.
#pragma once

#include "orchestrator/tune/course.h"
#include "orchestrator/tune/inputs.h"

namespace seqto::internal {

// Rough: off by up to four times on a machine with other work; the line of progress corrects it. A step that a study has behind it counts as any other.
Forecast forecast(const Inputs& inputs);

}  // namespace seqto::internal
