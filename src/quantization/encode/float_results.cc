#include "quantization/encode/float_results.h"

#include <algorithm>
#include <unordered_map>

#include "model/known_shapes.h"
#include "model/op_traits.h"

namespace seqto::internal {
namespace {

using Shapes = std::unordered_map<std::string, const std::vector<Dimension>*>;

// Whether each of its values counts for several of the other's.
bool is_spread(const std::string& tensor, const std::string& over, const Shapes& shapes) {
  const auto small = shapes.find(tensor), large = shapes.find(over);
  if (small == shapes.end() || large == shapes.end()) return false;
  const std::vector<Dimension>&from = *small->second, &to = *large->second;
  if (from.size() != to.size()) return from.size() < to.size();
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i].value == 1 && to[i].value != 1) return true;
  return false;
}

}  // namespace

bool has_weight(const Node& node, const GraphView& view) {
  if (has(node, kProduct)) return true;
  return is_gather(node) && view.constant(node.inputs[0]);
}

std::unordered_set<std::string> float_results(const Model& model, const GraphView& view,
                                              const std::vector<std::string>& op_types) {
  std::unordered_set<std::string> found;
  const Shapes shapes = known_shapes(model.graph);
  for (const Node& n : model.graph.nodes) {
    const auto is_computed = [&](const std::string& name) { return !name.empty() && !view.constant(name); };
    const auto floats = std::ranges::count_if(
        n.inputs, [&](const std::string& name) { return view.is_float(name) && is_computed(name); });
    const auto follows = [&](const std::string& input) {
      return found.contains(input) && (floats < 2 || !is_spread(input, n.outputs[0], shapes));
    };
    const bool of_integers = floats == 0 && std::ranges::any_of(n.inputs, is_computed);
    const bool gives = has(n, kProduct) ? std::ranges::count(op_types, n.op_type) > 0
                                        : of_integers || std::ranges::any_of(n.inputs, follows);
    if (!gives) continue;
    for (const std::string& output : n.outputs)
      if (!output.empty() && view.is_float(output)) found.insert(output);
  }
  return found;
}

bool is_clip_of_product(const Node& node, const GraphView& view) {
  if (!has(node, kClips) || node.inputs.empty() || node.outputs.empty()) return false;
  const Node* producer = view.edges.producer(node.inputs[0]);
  const Node* reader = view.edges.only_reader(node.outputs[0]);
  return producer && has(*producer, kProduct) && view.edges.only_reader(node.inputs[0]) && reader &&
         !has(*reader, kProduct);
}

bool is_for_one_reader(const std::string& tensor, const GraphView& view,
                       const std::function<bool(const Node&)>& on_codes) {
  const Node* producer = view.edges.producer(tensor);
  if (!producer || !view.edges.only_reader(tensor)) return false;
  if (!is_add(*producer)) return has(*producer, kProduct) && on_codes(*producer);
  const std::vector<std::string>& inputs = producer->inputs;
  const auto computed = std::ranges::find_if_not(inputs, [&](const auto& input) { return view.constant(input); });
  return computed != inputs.end() && std::ranges::all_of(inputs, [&](const std::string& input) {
           return view.constant(input) || is_for_one_reader(input, view, on_codes);
         });
}

}  // namespace seqto::internal
