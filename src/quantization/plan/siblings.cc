#include "quantization/plan/siblings.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "model/op_traits.h"
#include "quantization/plan/attention_parts.h"

namespace seqto::internal {
namespace {

using Places = std::set<size_t>;

// The tensor whose values `name` has, in another shape or order.
std::string origin(std::string name, const Edges& edges) {
  const auto same = [](const Node& n) { return is_identity(n) || (moves_values(n) && !has(n, kTakesApart)); };
  for (const Node* node = edges.producer(name); node && same(*node); node = edges.producer(name))
    name = node->inputs[0];
  return name;
}

// Which of `all` lead to each tensor without another weighted layer between, as far as a product brings them together.
class Paths {
 public:
  Paths(const Graph& graph, const GraphView& view, const std::vector<bool>& weighted)
      : graph_(graph), view_(view), weighted_(weighted) {}

  std::vector<std::pair<size_t, size_t>> met(const std::vector<size_t>& all) {
    from_.clear();
    pairs_.clear();
    for (size_t i = all.front(); i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (std::ranges::binary_search(all, i)) {
        from_[node.outputs[0]] = {i};
      } else if (!weighted_[i]) {
        if (is_mul(node) || attends(node, view_)) meet(node);
        pass_on(node);
      }
    }
    return {pairs_.begin(), pairs_.end()};
  }

 private:
  void pass_on(const Node& node) {
    Places places;
    for (const std::string& input : node.inputs)
      if (const auto it = from_.find(input); it != from_.end()) places.insert(it->second.begin(), it->second.end());
    if (places.empty()) return;
    for (const std::string& output : node.outputs) from_[output] = places;
  }

  // Those that come by one input alone, with those that come by another alone.
  void meet(const Node& node) {
    for (size_t a = 0; a < node.inputs.size(); ++a)
      for (size_t b = a + 1; b < node.inputs.size(); ++b) {
        const auto left = from_.find(node.inputs[a]), right = from_.find(node.inputs[b]);
        if (left == from_.end() || right == from_.end()) continue;
        for (const size_t i : left->second)
          for (const size_t j : right->second)
            if (!left->second.contains(j) && !right->second.contains(i)) pairs_.emplace(std::min(i, j), std::max(i, j));
      }
  }

  const Graph& graph_;
  const GraphView& view_;
  const std::vector<bool>& weighted_;
  std::unordered_map<std::string, Places> from_;
  std::set<std::pair<size_t, size_t>> pairs_;
};

}  // namespace

std::vector<std::pair<size_t, size_t>> siblings(const Graph& graph, const GraphView& view,
                                                const std::vector<bool>& weighted) {
  std::map<std::string, std::vector<size_t>> products;  // with weights, by the tensor that they read
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (weighted[i] && has(node, kMatrixProduct)) products[origin(node.inputs[0], view.edges)].push_back(i);
  }
  std::vector<std::pair<size_t, size_t>> result;
  Paths paths(graph, view, weighted);
  for (const auto& [tensor, places] : products)
    if (places.size() > 1) std::ranges::copy(paths.met(places), std::back_inserter(result));
  return result;
}

}  // namespace seqto::internal
