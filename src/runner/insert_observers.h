// Room: runner. A model that shows chosen tensors to an Observer while it runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "seqto/runner.h"

namespace seqto::internal {

constexpr const char* kObserveDomain = "seqto";

// One of the model's inputs that is observed: seen before the run, no node is needed.
struct ObservedInput {
  size_t tensor = 0, input = 0;
};

struct Instrumented {
  Model model;
  std::vector<ObservedInput> inputs;
};

// Puts a node Observe(x') -> x, attribute `tensor`, right behind the producer of every named tensor x, which then
// makes x'. All readers and the graph's outputs keep the name x, and no tensor has to live longer than before.
// A tensor that nothing in the main graph makes is left out.
Instrumented insert_observers(const Model& model, std::span<const std::string> tensors);

}  // namespace seqto::internal
