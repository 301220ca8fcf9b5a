// Room: model. Order and tidiness of a rewritten graph.
#pragma once

#include <span>
#include <string>
#include <unordered_set>

#include "seqto/model.h"

namespace seqto::internal {

// Topological order, as close to the present one as can be; edges into subgraphs count. True if anything moved. A cycle
// stays one, for onnx.checker to name.
bool sort_nodes(Graph& graph);

// Removes initializers that no node, subgraph or graph output reads, also from the graph's inputs.
void drop_unused_initializers(Graph& graph);
// Removes the nodes that none of `tensors` needs where others are given. The graph's nodes are in topological order.
void keep_ancestors(Graph& graph, std::span<const std::string> tensors,
                    const std::unordered_set<std::string>& given = {});
// What nodes, their bodies or the graph's caller read.
std::unordered_set<std::string> read_names(const Graph& graph);

// Calls f with every tensor name that the node reads, subgraphs included.
template <class F>
void for_each_read(const Node& node, F f) {
  for (const auto& name : node.inputs)
    if (!name.empty()) f(name);
  for (const Attribute& a : node.attributes)
    if (const auto* opaque = std::get_if<OpaqueAttribute>(&a.value))
      for (const auto& name : opaque->captures) f(name);
}

}  // namespace seqto::internal
