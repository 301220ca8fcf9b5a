// Room: orchestrator/tune. Which part of each device runs what.
#pragma once

#include <functional>
#include <span>

#include "orchestrator/tune/evaluate.h"
#include "seqto/metrics.h"

namespace seqto::internal {

// The study's note "placement" of the fully quantized model `full`, made only where a device is asked. Throws
// Error{kUnavailable} where a runtime gives all nodes to the CPU without a word: that is not what was asked for.
void note_placement(std::span<const Place> places, const std::function<const Model&()>& full,
                    std::span<const Tensor> inputs, Study& study);

}  // namespace seqto::internal
