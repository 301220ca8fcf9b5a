// Room: metrics. The node where the values of a sample begin to depend on what it is computed with.
#pragma once

#include <optional>

#include "metrics/together.h"
#include "seqto/env.h"
#include "seqto/runner.h"
#include "seqto/validate.h"

namespace seqto::internal {

// A sample among others that run together.
struct InRun {
  Together run;
  size_t place = 0;
  Runner* runner = nullptr;  // that all of them are run by
};

// The sample computed alone by `alone` and in its run, both with the runtime's optimizations off and the tensors
// between the nodes as outputs. Nothing where every tensor has the same bits. Compared are floats and codes that depend
// on the inputs; wider integers hold ids, shapes and exact sums. Memory: the tensors of the one sample, and at most 256
// MB of those of the run, or one node's.
std::optional<FirstDifference> first_difference(const Model& model, Runner& alone, const InRun& sample, const Env& env);

}  // namespace seqto::internal
