// Room: orchestrator/tune. What a search chooses from: the model's groups, and what the schemes are for their layers.
// What bounds it.
#pragma once

#include <vector>

#include "orchestrator/tune/workbench.h"
#include "seqto/search.h"
#include "seqto/validate.h"

namespace seqto::internal {

// Its groups, without what predicts sizes and latencies: a choice for each scheme to choose from that any layer of the
// group can be written in; layers that cannot stay float32 in it, and so do the excluded in all. float16 is a choice
// where it changes anything: without float16_compute it is for weights. Groups without a choice are left out.
// The model is in the form that candidates are made of, which outlives the space.
SearchSpace search_space(const Model& model, const QuantizeOptions& quantize, const TuneOptions& options);

// Ratios are to the float model, whose file has so many bytes; a latency in nanoseconds is the device's, as the space's
// model of latencies predicts it. Without such a model latencies are unbounded.
void set_bounds(StrategyOptions& options, const std::vector<Limit>& limits, const SearchSpace& space,
                int64_t float_bytes);

}  // namespace seqto::internal
