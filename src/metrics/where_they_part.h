// Room: metrics. The node where two runtimes begin to compute something else.
#pragma once

#include <optional>

#include "seqto/dataset.h"
#include "seqto/env.h"
#include "seqto/runner.h"
#include "seqto/validate.h"

namespace seqto::internal {

// A file on two runtimes, with one sample.
struct TwoRuntimes {
  const Model& model;  // with names of nodes, and inferred types of tensors: those without are not looked at
  Runner& reference;
  Runner& candidate;
  const Sample& sample;
};

struct Parting {
  double error = 0;  // of the output that differs most: squared difference over squared values
  std::optional<FirstDifference> first;
};

// The graph is cut behind a node and run on both, for one node after the other, by halves. It is cut only where values
// are settled: not between a node and the QuantizeLinear behind it, nor before the DequantizeLinear behind that, so
// that runtimes fuse what they fuse in the whole graph. The node found has 25 times the error
// of what it reads. `always`: also looks where the error is below kBeyondRounding; never where it is that of sums in
// float. Throws what load() and run() throw.
Parting where_they_part(const TwoRuntimes& on, bool always, const Env& env);

}  // namespace seqto::internal
