#include "quantization/calibration/range_view.h"

#include <algorithm>

#include "model/op_traits.h"

namespace seqto::internal {
namespace {

bool has_other_ends(const Range& a, const Range& b) { return a.lowest != b.lowest || a.highest != b.highest; }

}  // namespace

RangeView::RangeView(const Model& model, const GraphView& index, const Ranges& ranges,
                     const std::vector<bool>& selected, const QuantizeOptions& options)
    : ranges_(ranges) {
  if (options.unify_concat) unify_concat(model, index, selected);
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
      const Range *input = find(node.inputs[0]), *output = find(node.outputs[0]);
      const bool alone = index.edges.only_reader(node.inputs[0]);
      if (!alone && !options.compat_onnxruntime) {
        if (input && output && has_other_ends(*input, *output)) kept_.push_back(node.name);
        continue;
      }
      if (input && output) adjusted_[node.inputs[0]] = Range(*output);
      if (bounds) bounds_[node.inputs[0]] = *bounds;
    }
  }
  if (!options.equal_input_op_types.empty()) equal_inputs(model, index, selected, options);
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

// Tensors that operators join, directly or through others, have one range: the least that holds all of theirs.
void RangeView::equal_inputs(const Model& model, const GraphView& index, const std::vector<bool>& selected,
                             const QuantizeOptions& options) {
  std::unordered_map<std::string, std::string> joined;  // towards the first of each set, which is absent
  const auto first_of = [&](std::string name) {
    for (auto it = joined.find(name); it != joined.end(); it = joined.find(name)) name = it->second;
    return name;
  };
  const auto is_one_of = [](const std::vector<std::string>& op_types, const Node& node) {
    return std::ranges::count(op_types, node.op_type) > 0;
  };
  // Whose parameters the tensor has: of what a node that keeps them read.
  const auto source = [&](const std::string& name) -> const std::string* {
    const Node* node = index.edges.producer(name);
    const bool keeps = node && has(*node, kKeepsScale) && selected[index.edges.place(*node)];
    return keeps && !is_one_of(options.exclude_output_op_types, *node) ? &node->inputs[0] : nullptr;
  };
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    if (!selected[i] || !is_one_of(options.equal_input_op_types, node)) continue;
    std::vector<std::string> names = node.inputs;
    if (is_concat(node)) names.push_back(node.outputs[0]);
    for (size_t k = 0; k < names.size(); ++k)
      if (const std::string* before = source(names[k])) names.push_back(std::string(*before));
    std::erase_if(names, [&](const std::string& name) { return !find(name); });
    for (const std::string& name : names)
      if (const std::string a = first_of(names[0]), b = first_of(name); a != b) joined[b] = a;
  }
  std::unordered_map<std::string, Range> whole;
  for (const auto& [name, next] : joined)
    for (const std::string& each : {name, first_of(next)}) {
      const Range& range = *find(each);
      Range& all = whole.try_emplace(first_of(each), range).first->second;
      all.lowest = std::min(all.lowest, range.lowest), all.highest = std::max(all.highest, range.highest);
    }
  for (const auto& [name, next] : joined) adjusted_[name] = whole.at(first_of(next)), joined_.insert(name);
  for (const auto& [name, range] : whole) adjusted_[name] = range, joined_.insert(name);
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
