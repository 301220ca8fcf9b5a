#include "model/sort_nodes.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace seqto::internal {

bool sort_nodes(Graph& graph) {
  std::unordered_map<std::string, size_t> producer;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const auto& o : graph.nodes[i].outputs)
      if (!o.empty()) producer[o] = i;
  std::vector<std::vector<size_t>> sources(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for_each_read(graph.nodes[i], [&](const std::string& name) {
      if (auto it = producer.find(name); it != producer.end() && it->second != i) sources[i].push_back(it->second);
    });
  // Depth first from the first node on, with a stack of our own: chains can be thousands of nodes long.
  std::vector<char> state(graph.nodes.size());  // 0 new, 1 on the stack, 2 placed
  std::vector<size_t> order;
  for (size_t start = 0; start < graph.nodes.size(); ++start) {
    std::vector<std::pair<size_t, size_t>> stack;
    if (state[start] == 0) stack.emplace_back(start, 0), state[start] = 1;
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == sources[node].size()) {
        state[node] = 2;
        order.push_back(node);
        stack.pop_back();
        continue;
      }
      size_t source = sources[node][next++];
      if (state[source] == 0) {
        state[source] = 1;
        stack.emplace_back(source, 0);
      }
    }
  }
  if (std::is_sorted(order.begin(), order.end())) return false;
  std::vector<Node> sorted;
  sorted.reserve(order.size());
  for (size_t i : order) sorted.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(sorted);
  return true;
}

void drop_unused_initializers(Graph& graph) {
  std::unordered_set<std::string> read;
  for (const Node& n : graph.nodes) for_each_read(n, [&](const std::string& name) { read.insert(name); });
  for (const ValueInfo& v : graph.outputs) read.insert(v.name);
  std::unordered_set<std::string> dropped;
  std::erase_if(graph.initializers, [&](const Initializer& i) {
    if (read.contains(i.name)) return false;
    dropped.insert(i.name);
    return true;
  });
  std::erase_if(graph.inputs, [&](const ValueInfo& v) { return dropped.contains(v.name); });
}

}  // namespace seqto::internal
