// Room: orchestrator/tune. A front of one point seconds after a run has begun: what is on disk whenever it is stopped.
#pragma once

#include "orchestrator/tune/open_study.h"

namespace seqto::internal {

// int8_weights everywhere, measured on the first few evaluation samples: models/selected.onnx and a summary.json that
// says what it is. For searches that have measured nothing yet, of models below 20 MB. The study learns nothing of it.
void write_first_front(const Inputs& inputs, const OpenStudy& study);

// The study's front takes its place.
void remove_first_front(const Inputs& inputs, const Study& study);

}  // namespace seqto::internal
