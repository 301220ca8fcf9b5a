// Room: quantization/plan. Matrix products that another export of the same network has as one: the projections of
// queries, keys and values, the gate and what it opens.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "model/graph_view.h"

namespace seqto::internal {

// Places of nodes, two by two: both read one tensor, and their outputs meet in a product, an attention or a Mul, before
// any other of the `weighted` nodes. The graph is sorted.
std::vector<std::pair<size_t, size_t>> siblings(const Graph& graph, const GraphView& view,
                                                const std::vector<bool>& weighted);

}  // namespace seqto::internal
