// Room: quantization/encode. The end of a detector: where boxes and scores are read off the last layers.
#pragma once

#include <string>
#include <unordered_set>

#include "model/graph_view.h"

namespace seqto::internal {

// What stays in float: the tensors of all nodes behind the last layers with weights; and where their weights are a
// tenth of the model's at most, what these layers write, and what operators that round compute for them alone. Empty
// where no Concat of floats is among those nodes: other models end in one kind of answer. (A product with the shares of
// a Softmax, as YOLOv8 has it for distances, is a mean and no layer.) Nodes in topological order.
//
// An 8-bit code is too coarse there. One scale for boxes in pixels and scores below 1 makes all scores 0, and a step of
// boxes, or of what they are computed from, is some pixels. The layers are small, and nothing follows them.
std::unordered_set<std::string> readout(const Model& model, const GraphView& view);

}  // namespace seqto::internal
