// Room: orchestrator/tune. How long each step of a run will take, from what a candidate, a sample and a layer take
// here.
#pragma once

#include "orchestrator/tune/course.h"
#include "orchestrator/tune/inputs.h"

namespace seqto::internal {

// Calibrates on a few samples, makes a candidate in int8 and one in int8_weights, and counts how often a run does each;
// a sample or two where --max-time is short or the study goes on. The line of progress corrects it as the run goes on.
// A step that the study has behind it counts as any other.
Forecast forecast(const Inputs& inputs, const Study& study);

}  // namespace seqto::internal
