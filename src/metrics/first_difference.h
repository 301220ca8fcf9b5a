// Room: metrics. The node where the values of a sample begin to depend on what it is computed with.
#pragma once

#include <optional>

#include "metrics/together.h"
#include "seqto/env.h"
#include "seqto/runner.h"
#include "seqto/validate.h"

namespace seqto::internal {

// The sample at `place` of the run, computed alone by `alone` and in the run by `other`, both with the runtime's
// optimizations off and the tensors between the nodes as outputs. Nothing where every tensor has the same bits.
// Compared are floats and codes that depend on the inputs; wider integers hold ids, shapes and exact sums. Memory: the
// tensors of the one sample, and at most 256 MB of those of the run, or one node's.
std::optional<FirstDifference> first_difference(const Model& model, Runner& alone, Runner& other, const Together& run,
                                                size_t place, const Env& env);

}  // namespace seqto::internal
