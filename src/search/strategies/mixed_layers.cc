#include <algorithm>
#include <cmath>
#include <set>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/plan/weight_sites.h"
#include "search/strategies/replay.h"
#include "search/strategies/strategies.h"

namespace seqto {
namespace {

using namespace internal;

// The products of a transformer by their parts. genai knows them by its own names; here they are found in the graph,
// whoever exported it.
class Parts {
 public:
  explicit Parts(const Model& model) : view_(model) {
    const ConstantOf constant = [&](const std::string& name) { return view_.constant(name); };
    const TransposedWeights transposed = transposed_weights(model, constant);
    for (const Node& node : model.graph.nodes) {
      if (!has(node, kMatrixProduct)) continue;
      const std::vector<WeightSite> sites = weight_sites(node, constant, transposed);
      if (sites.empty()) continue;
      products_.push_back(&node);
      const Grouping& g = sites[0].grouping;
      if (g.before * g.after > g.channels) narrowing_.insert(&node);
    }
    for (const Node& node : model.graph.nodes)
      if (const std::string* values = values_of(node)) attentions_.push_back({&node, values});
  }

  std::set<LayerId> head() const {
    return products_.empty() ? std::set<LayerId>() : std::set<LayerId>{products_.back()->name};
  }

  // Value and down projections of the first and the last eighth of the blocks and of every third between them.
  std::set<LayerId> of_mixed_blocks() const {
    std::set<LayerId> layers;
    const auto blocks = static_cast<double>(attentions_.size());
    const int first = static_cast<int>(std::nearbyint(blocks / 8));
    for (size_t b = 0; b < attentions_.size(); ++b) {
      const auto block = static_cast<double>(b);
      const int third = (static_cast<int>(b) - first + 3 * static_cast<int>(attentions_.size())) % 3;
      if (block >= blocks / 8 && block < 7 * blocks / 8 && third != 2) continue;
      for (const Node* value : products_behind({*attentions_[b].values})) layers.insert(value->name);
      if (const Node* down = down_of(b)) layers.insert(down->name);
    }
    return layers;
  }

 private:
  struct Attention {
    const Node* node;
    const std::string* values;
  };

  // What an attention weighs with its probabilities; null for another node.
  const std::string* values_of(const Node& node) const {
    // The fused ones read queries, keys and values, or all three as the first.
    static const std::set<std::string> kFused{"Attention", "GroupQueryAttention", "MultiHeadAttention"};
    if (kFused.contains(node.op_type) && node.inputs.size() > 2) return &node.inputs[node.inputs[2].empty() ? 0 : 2];
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

  // Of the products behind a block's attention, the head aside, the last that has more inputs than outputs.
  const Node* down_of(size_t block) const {
    const size_t from = view_.edges.place(*attentions_[block].node),
                 to = block + 1 < attentions_.size() ? first_place(block + 1) : view_.edges.place(*products_.back());
    const Node* down = nullptr;
    for (const Node* node : products_)
      if (view_.edges.place(*node) > from && view_.edges.place(*node) < to && narrowing_.contains(node)) down = node;
    return down;
  }

  const GraphView view_;
  std::vector<const Node*> products_;  // with a constant weight, in graph order
  std::set<const Node*> narrowing_;
  std::vector<Attention> attentions_;  // one of each block
};

class MixedLayers : public Replay {
 public:
  using Replay::Replay;

 private:
  void search() override {
    const std::vector<DetailedScheme> schemes = assignments_.schemes_by_bytes();
    const Assignment low = assignments_.uniform(schemes[0]),
                     high = schemes.size() > 1 ? assignments_.uniform(schemes[1]) : assignments_.all_float();
    const Parts parts(*space_.model);
    const std::set<LayerId> head = parts.head(), mixed = parts.of_mixed_blocks();
    std::vector<Assignment> plans{low, low, low, low};
    for (size_t g = 0; g < low.size(); ++g)
      for (const LayerId& layer : space_.groups[g].layers) {
        if (head.contains(layer)) plans[1][g] = plans[3][g] = high[g];
        if (mixed.contains(layer)) plans[2][g] = plans[3][g] = high[g];
      }
    plans.push_back(high);
    losses(plans);
  }
};

}  // namespace

std::unique_ptr<Strategy> make_mixed_layers(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<MixedLayers>(space, options);
}

}  // namespace seqto
