#include "model/sort_nodes.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "model/graph_view.h"

namespace seqto::internal {

namespace {

// No node reads what a later one writes.
bool is_in_order(const Graph& graph) {
  std::unordered_set<std::string_view> later;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    bool reads_later = false;
    for_each_read(*node, [&](const std::string& name) { reads_later |= later.contains(name); });
    if (reads_later) return false;
    later.insert(node->outputs.begin(), node->outputs.end());
  }
  return true;
}

}  // namespace

bool sort_nodes(Graph& graph) {
  if (is_in_order(graph)) return false;
  const Edges edges(graph);
  std::vector<std::vector<size_t>> sources(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for_each_read(graph.nodes[i], [&](const std::string& name) {
      if (const Node* producer = edges.producer(name); producer && producer != &graph.nodes[i])
        sources[i].push_back(edges.place(*producer));
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

void keep_ancestors(Graph& graph, std::span<const std::string> tensors, const std::unordered_set<std::string>& given) {
  std::unordered_set<std::string> needed(tensors.begin(), tensors.end());
  std::vector<Node> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const auto is_needed = [&](const std::string& name) { return needed.contains(name) && !given.contains(name); };
    if (std::ranges::none_of(node->outputs, is_needed)) continue;
    for_each_read(*node, [&](const std::string& name) { needed.insert(name); });
    kept.push_back(std::move(*node));
  }
  std::ranges::reverse(kept);
  graph.nodes = std::move(kept);
}

std::unordered_set<std::string> read_names(const Graph& graph) {
  std::unordered_set<std::string> read;
  for (const Node& n : graph.nodes) for_each_read(n, [&](const std::string& name) { read.insert(name); });
  for (const ValueInfo& v : graph.outputs) read.insert(v.name);
  return read;
}

void drop_unused_initializers(Graph& graph) {
  const std::unordered_set<std::string> read = read_names(graph);
  std::unordered_set<std::string> dropped;
  std::erase_if(graph.initializers, [&](const Initializer& i) {
    if (read.contains(i.name)) return false;
    dropped.insert(i.name);
    return true;
  });
  std::erase_if(graph.inputs, [&](const ValueInfo& v) { return dropped.contains(v.name); });
}

}  // namespace seqto::internal
