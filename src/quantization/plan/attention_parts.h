// Room: quantization/plan. What lies between queries, keys and values and the layer behind their attention.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "model/graph_view.h"

namespace seqto::internal {

// Multiplies what was computed with what was computed: an attention, or a matrix product of one that is not fused.
bool attends(const Node& node, const GraphView& view);

constexpr size_t kNoAttention = static_cast<size_t>(-1);

// By node: the place of the attention that it is a part of, which is that of its first product.
//
// Parts are the products, what is between them, and what leads to them alone: a rotation of positions, Reshape, a
// mask. What the runtime fuses with a `weighted` node before them is none: a bias, an activation function. Products of
// what no weighted node leads to are none either, such as that of positions and frequencies. `computed`: whether a
// tensor holds floats that are no constant. The graph is sorted.
std::vector<size_t> attention_parts(const Graph& graph, const GraphView& view, const std::vector<bool>& weighted,
                                    const std::function<bool(const std::string&)>& computed);

}  // namespace seqto::internal
