// Room: metrics. The node where the values of a sample begin to depend on what it is computed with.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/together.h"
#include "seqto/env.h"
#include "seqto/runner.h"
#include "seqto/validate.h"

namespace seqto::internal {

bool is_code(DataType type);   // of a quantized tensor
bool is_value(DataType type);  // a float, or a code

// A tensor between nodes: the place of the node that makes it, and room for its value.
struct Between {
  size_t node = 0;
  std::string name;
  Tensor value;
};
// Those that depend on the inputs, in graph order.
std::vector<Between> tensors_between(const Graph& graph);
// The nodes that these tensors are computed by; they are its outputs.
Model up_to(const Model& model, std::span<const Between> tensors);

// Squared difference over squared values of `wanted` from `origin`; infinite where shapes differ or a value is finite
// on one side alone, 0 for whole numbers that are no codes.
double relative_error(const Tensor& wanted, const Tensor& found, double origin = 0);

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
