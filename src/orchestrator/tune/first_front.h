// Room: orchestrator/tune. A front of one point seconds after a run has begun: what is on disk whenever it is stopped.
#pragma once

#include "orchestrator/tune/evaluate.h"
#include "orchestrator/tune/open_study.h"

namespace seqto::internal {

// int8_weights everywhere, measured on the search samples: models/selected.onnx and a summary.json that says what it
// is. For searches that have measured nothing yet, of models below 20 MB. The study learns nothing of it. `in_float`:
// the float model's figures on the place's search samples.
void write_first_front(const Inputs& inputs, const OpenStudy& study, const Place& place, const Measurement& in_float);

// The study's front takes its place.
void remove_first_front(const Inputs& inputs);

}  // namespace seqto::internal
