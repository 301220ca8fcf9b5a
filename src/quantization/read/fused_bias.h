// Room: quantization/read. Before ONNX Runtime looks at pairs, it makes a Gemm of a MatMul and the Add of its bias.
#pragma once

#include <unordered_map>

#include "model/graph_view.h"
#include "quantization/read/pair_graph.h"

namespace seqto::internal {

// MatMuls and Adds of which the runtime makes a Gemm, each to its other one. `nodes` are those of pairs.model(), `file`
// the graph that it was made of, whose tensors have shapes.
std::unordered_map<const Node*, const Node*> fused_biases(const std::vector<Node>& nodes, const Edges& edges,
                                                          const PairGraph& pairs, const Graph& file);

}  // namespace seqto::internal
