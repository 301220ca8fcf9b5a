#include "search/strategies/transformer_parts.h"

#include <algorithm>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/plan/weight_sites.h"

namespace seqto::internal {
namespace {

class Finder {
 public:
  explicit Finder(const Model& model) : view_(model) {
    const ConstantOf constant = [&](const std::string& name) { return view_.constant(name); };
    const TransposedWeights transposed = transposed_weights(model, constant);
    for (const Node& node : model.graph.nodes) {
      if (const std::string* values = values_of(node)) attentions_.push_back({&node, values});
      if (!has(node, kMatrixProduct) && !is_gather(node)) continue;
      const std::vector<WeightSite> sites = weight_sites(node, constant, transposed);
      if (sites.empty()) continue;
      if (is_gather(node)) {
        parts_.embeddings.insert(node.name);
        tables_.insert(sites[0].weight);
        continue;
      }
      products_.push_back(&node);
      parts_.has_tied_head = tables_.contains(sites[0].weight);
      const Grouping& g = sites[0].grouping;
      if (g.before * g.after > g.channels) narrowing_.insert(&node);
    }
  }

  TransformerParts run() {
    if (products_.empty()) return std::move(parts_);
    parts_.head = products_.back()->name;
    for (size_t b = 0; b < attentions_.size(); ++b) {
      TransformerParts::Block& block = parts_.blocks.emplace_back();
      for (const Node* value : products_behind({*attentions_[b].values})) block.values.insert(value->name);
      block.down = down_of(b);
    }
    return std::move(parts_);
  }

 private:
  struct Attention {
    const Node* node;
    const std::string* values;
  };

  // What an attention weighs with its probabilities; null for another node.
  const std::string* values_of(const Node& node) const {
    // The fused ones read queries, keys and values, or all three as the first.
    if (has(node, kAttends) && node.inputs.size() > 2) return &node.inputs[node.inputs[2].empty() ? 0 : 2];
    if (!is_matmul(node) || view_.constant(node.inputs[1])) return nullptr;
    const Node* before = view_.edges.producer(node.inputs[0]);
    while (before && !is_softmax(*before) && (moves_values(*before) || is_cast(*before)))
      before = view_.edges.producer(before->inputs[0]);
    return before && is_softmax(*before) ? &node.inputs[1] : nullptr;
  }

  // The nearest on every way back from these tensors.
  std::set<const Node*> products_behind(std::vector<std::string> tensors) const {
    std::set<const Node*> found, seen;
    while (!tensors.empty()) {
      const Node* node = view_.edges.producer(tensors.back());
      tensors.pop_back();
      if (!node || !seen.insert(node).second) continue;
      if (std::ranges::find(products_, node) != products_.end()) found.insert(node);
      else for_each_read(*node, [&](const std::string& name) { tensors.push_back(name); });
    }
    return found;
  }

  size_t first_place(size_t block) const {
    size_t first = view_.edges.place(*attentions_[block].node);
    for (const Node* node : products_behind(attentions_[block].node->inputs))
      first = std::min(first, view_.edges.place(*node));
    return first;
  }

  LayerId down_of(size_t block) const {
    const size_t from = view_.edges.place(*attentions_[block].node),
                 to = block + 1 < attentions_.size() ? first_place(block + 1) : view_.edges.place(*products_.back());
    LayerId down;
    for (const Node* node : products_)
      if (view_.edges.place(*node) > from && view_.edges.place(*node) < to && narrowing_.contains(node))
        down = node->name;
    return down;
  }

  const GraphView view_;
  TransformerParts parts_;
  std::set<std::string> tables_;       // of embeddings
  std::vector<const Node*> products_;  // with a constant weight, in graph order
  std::set<const Node*> narrowing_;    // that have more inputs than outputs
  std::vector<Attention> attentions_;
};

}  // namespace

TransformerParts transformer_parts(const Model& model) { return Finder(model).run(); }

}  // namespace seqto::internal
