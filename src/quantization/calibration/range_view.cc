#include "quantization/calibration/range_view.h"

#include <algorithm>

#include "model/op_traits.h"

namespace seqto::internal {

RangeView::RangeView(const Model& model, const GraphView& index, const Ranges& ranges,
                     const std::vector<bool>& selected, bool unify_concat)
    : ranges_(ranges) {
  if (unify_concat) this->unify_concat(model, index, selected);
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    if (!selected[i] || node.inputs.empty() || node.outputs.empty()) continue;
    if (is_softmax(node)) {
      adjusted_[node.outputs[0]] = {0.0f, 1.0f};
      bounds_[node.outputs[0]] = {0, 1};
    } else if (has(node, kClips)) {
      const auto bounds = clip_bounds(node, index);
      if (bounds) bounds_[node.outputs[0]] = *bounds;
      // What the activation cuts off needs no codes: its only input takes over the range of its output.
      if (index.read_count(node.inputs[0]) != 1) continue;
      const Range* output = find(node.outputs[0]);
      if (output && find(node.inputs[0])) adjusted_[node.inputs[0]] = Range(*output);
      if (bounds) bounds_[node.inputs[0]] = *bounds;
    }
  }
}

// Of Concats in a row the last one decides.
void RangeView::unify_concat(const Model& model, const GraphView& index, const std::vector<bool>& selected) {
  const auto alone = [&](const std::string& name) {
    return index.edges.only_reader(name) && !index.inputs.contains(name);
  };
  const auto pool = [&](const std::string& name) {
    const Node* producer = index.edges.producer(name);
    return producer && is_max_pool(*producer) && producer->outputs[0] == name ? producer : nullptr;
  };
  for (size_t i = model.graph.nodes.size(); i-- > 0;) {
    const Node& node = model.graph.nodes[i];
    const Range* output = selected[i] && is_concat(node) ? find(node.outputs[0]) : nullptr;
    if (!output) continue;
    const Range range = *output;
    for (const std::string& input : node.inputs) {
      // A pool's codes are those of what it reads.
      std::string name = input;
      while (alone(name) && pool(name)) name = pool(name)->inputs[0];
      if (alone(name) && find(name)) adjusted_[name] = range;
    }
  }
}

const Range* RangeView::find(const std::string& tensor) const {
  if (auto it = adjusted_.find(tensor); it != adjusted_.end()) return &it->second;
  auto it = ranges_.find(tensor);
  return it == ranges_.end() ? nullptr : &it->second;
}

Range RangeView::widened(const std::string& tensor, double times) const {
  Range range = *find(tensor);
  double low = range.lowest * times, high = range.highest * times;
  if (auto it = bounds_.find(tensor); it != bounds_.end()) {
    // What was seen beyond the bounds, of a tensor that others read too, stays.
    low = std::max(low, std::min<double>(it->second.first, range.lowest));
    high = std::min(high, std::max<double>(it->second.second, range.highest));
  }
  range.lowest = static_cast<float>(std::max<double>(low, -kUnbounded));
  range.highest = static_cast<float>(std::min<double>(high, kUnbounded));
  return range;
}

}  // namespace seqto::internal
