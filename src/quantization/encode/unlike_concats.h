// Room: quantization/encode. Concats of tensors that one scale does not fit: boxes in pixels beside scores below one.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>

#include "quantization/encode/marks.h"
#include "seqto/calibrate.h"

namespace seqto::internal {

// What Concats write that have an input with fewer than 16 of the `levels` steps that the range of their output has,
// and what nodes that move values make of it: all of it, where nothing that is `quantizable` computes with the whole.
// (What a Slice, Split or Gather takes out of it has a scale of its own.) Nodes in topological order.
std::unordered_set<std::string> unlike_concats(const Model& model, const Ranges& ranges, int64_t levels,
                                               const std::function<bool(const Node&)>& quantizable);

}  // namespace seqto::internal
