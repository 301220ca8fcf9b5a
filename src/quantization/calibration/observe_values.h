// Room: quantization/calibration. The values that a model's activations take, whatever ranges are made of them.
#pragma once

#include "seqto/calibrate.h"

namespace seqto::internal {

// Extremes and a histogram of every tensor that calibrate() observes by default and the runtime's optimised graph still
// has; one pass. At least `bins` bins of equal width between -m and m, m the largest magnitude, and at most twice as
// many.
Ranges observe_values(const Model& model, const SampleRun& on, int bins);

}  // namespace seqto::internal
