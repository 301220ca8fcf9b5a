#include "quantization/plan/attention_parts.h"

#include <algorithm>

#include "model/op_traits.h"

namespace seqto::internal {
namespace {

class Parts {
 public:
  Parts(const Graph& graph, const GraphView& view, const std::vector<bool>& weighted,
        const std::function<bool(const std::string&)>& computed)
      : nodes_(graph.nodes), view_(view), weighted_(weighted), computed_(computed) {
    fed_.resize(nodes_.size());
    fused_.resize(nodes_.size());
    product_.resize(nodes_.size());
    behind_.assign(nodes_.size(), kNoAttention);
    part_of_.assign(nodes_.size(), kNoAttention);
  }

  std::vector<size_t> run() {
    for (size_t i = 0; i < nodes_.size(); ++i) look_back(i);
    for (size_t i = nodes_.size(); i-- > 0;)
      if (!weighted_[i]) part_of_[i] = product_[i] ? behind_[i] : led_to(i);
    return part_of_;
  }

 private:
  void look_back(size_t i) {
    const Node& node = nodes_[i];
    if (weighted_[i]) {
      fed_[i] = fused_[i] = true;
      return;
    }
    size_t inputs = 0, fed = 0, fused = 0;
    for (const std::string& name : node.inputs) {
      if (!computed_(name)) continue;
      ++inputs;
      const Node* producer = view_.edges.producer(name);
      if (!producer) continue;
      const size_t place = view_.edges.place(*producer);
      fed += fed_[place], fused += fused_[place];
      if (behind_[i] == kNoAttention) behind_[i] = behind_[place];
    }
    fed_[i] = fed > 0;
    product_[i] =
        fed > (has(node, kAttends) ? 0 : 1) && attends(node, view_);  // one operator may read all three packed
    if (product_[i] && behind_[i] == kNoAttention) behind_[i] = i;
    fused_[i] = inputs == 1 && fused == 1 && !has(node, kMovesValues | kTakesApart);
  }

  // Where all that read it as values are parts.
  size_t led_to(size_t i) const {
    if (fused_[i]) return kNoAttention;
    size_t first = kNoAttention;
    for (const std::string& output : nodes_[i].outputs)
      for (const Node* reader : view_.edges.readers(output)) {
        if (std::ranges::none_of(reader->outputs, computed_)) continue;
        const size_t attention = part_of_[view_.edges.place(*reader)];
        if (attention == kNoAttention) return kNoAttention;
        first = std::min(first, attention);
      }
    return first != kNoAttention && behind_[i] != kNoAttention ? behind_[i] : first;
  }

  const std::vector<Node>& nodes_;
  const GraphView& view_;
  const std::vector<bool>& weighted_;
  const std::function<bool(const std::string&)>& computed_;
  std::vector<bool> fed_, fused_, product_;  // a weighted node leads to it; is one layer with it; multiplies two such
  std::vector<size_t> behind_;               // the attention before it, without a weighted node between
  std::vector<size_t> part_of_;
};

}  // namespace

bool attends(const Node& node, const GraphView& view) {
  if (has(node, kAttends)) return true;
  return has(node, kMatrixProduct) &&
         std::ranges::none_of(data_inputs(node), [&](size_t i) { return view.constant(node.inputs[i]) != nullptr; });
}

std::vector<size_t> attention_parts(const Graph& graph, const GraphView& view, const std::vector<bool>& weighted,
                                    const std::function<bool(const std::string&)>& computed) {
  return Parts(graph, view, weighted, computed).run();
}

}  // namespace seqto::internal
