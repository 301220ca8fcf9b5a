#include "model/absent_inputs.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "model/bodies.h"
#include "model/op_traits.h"

namespace seqto::internal {
namespace {

using Names = std::unordered_set<std::string>;

// Inputs of which no elements mean that they are absent. Elsewhere an empty tensor is a value: axes of a reduction.
struct Row {
  std::string_view op_type;
  size_t first, last;
};
constexpr Row kRows[] = {{"Resize", 1, 3}};  // roi, scales, sizes

template <class T>
bool is_empty(const Attribute& a) {
  const auto* values = std::get_if<T>(&a.value);
  return values && values->empty();
}

bool is_empty_constant(const Node& node) {
  if (!is_constant(node) || !node.domain.empty() || node.attributes.size() != 1) return false;
  const Attribute& a = node.attributes[0];
  if (const auto* tensor = std::get_if<Tensor>(&a.value)) return tensor->element_count() == 0;
  return is_empty<std::vector<float>>(a) || is_empty<std::vector<int64_t>>(a);
}

// `empty`: the constants without elements that this graph sees.
int drop(Graph& graph, Names empty, const std::vector<Opset>& opsets);

int drop_in_bodies(Node& node, const Names& empty, const std::vector<Opset>& opsets) {
  int dropped = 0;
  for (Attribute& a : node.attributes) {
    auto* opaque = std::get_if<OpaqueAttribute>(&a.value);
    if (!opaque) continue;
    std::vector<Model> bodies = parse_bodies(*opaque, opsets);
    int inside = 0;
    for (Model& body : bodies) inside += drop(body.graph, empty, opsets);
    if (inside > 0) *opaque = with_bodies(*opaque, bodies);
    dropped += inside;
  }
  return dropped;
}

int drop(Graph& graph, Names empty, const std::vector<Opset>& opsets) {
  for (const ValueInfo& v : graph.inputs) empty.erase(v.name);
  for (const Initializer& i : graph.initializers)
    if (i.tensor.type() != DataType::kString && i.tensor.element_count() == 0) empty.insert(i.name);
  for (const Node& n : graph.nodes)
    if (is_empty_constant(n)) empty.insert(n.outputs.at(0));
  int dropped = 0;
  for (Node& node : graph.nodes) {
    dropped += drop_in_bodies(node, empty, opsets);
    const auto* row = std::ranges::find(kRows, node.op_type, &Row::op_type);
    if (row == std::end(kRows) || !node.domain.empty()) continue;
    for (size_t i = row->first; i <= row->last && i < node.inputs.size(); ++i)
      if (empty.contains(node.inputs[i])) node.inputs[i].clear(), ++dropped;
  }
  return dropped;
}

}  // namespace

int drop_empty_inputs(Model& model) { return drop(model.graph, {}, model.opsets); }

}  // namespace seqto::internal
