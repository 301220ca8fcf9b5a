#include "quantization/encode/encode_clips.h"

#include <algorithm>
#include <optional>

#include "model/graph_view.h"
#include "model/op_traits.h"

namespace seqto::internal {
namespace {

constexpr int64_t kIntegerPools = 12;  // the opset that MaxPool of bytes came with

// What the codes of this Q stand for, of 8 bits and one scale.
std::optional<std::pair<float, float>> bounds_of(const Node& q, const GraphView& view) {
  if (q.inputs.size() < 3 || !view.is_initializer(q.inputs[1]) || !view.is_initializer(q.inputs[2])) return {};
  const Tensor &s = *view.initializers.at(q.inputs[1]), &z = *view.initializers.at(q.inputs[2]);
  if (s.type() != DataType::kFloat || s.element_count() != 1 || !is_8_bits(z.type())) return {};
  const QuantLimits limits = quant_limits(z.type());
  const float step = s.values<float>()[0];
  const auto zero_point = static_cast<int32_t>(element(z, 0));
  return std::pair{static_cast<float>(limits.lowest - zero_point) * step,
                   static_cast<float>(limits.highest - zero_point) * step};
}

// The MaxPool that this Q would be taken past; null where there is none.
const Node* pool_before(const Node& q, const Edges& edges) {
  auto only_producer = [&](const std::string& tensor) {
    return edges.uses(tensor) == 1 ? edges.producer(tensor) : nullptr;
  };
  const Node* node = only_producer(q.inputs[0]);
  while (node && moves_values(*node)) node = only_producer(node->inputs[0]);
  if (!node || !is_max_pool(*node) || !node->domain.empty()) return nullptr;
  // Behind a DQ it is an integer one from the other side, and in the layout that is fast.
  const Node* source = edges.producer(node->inputs[0]);
  while (source && moves_values(*source)) source = edges.producer(source->inputs[0]);
  return source && is_dequantize(*source) ? nullptr : node;
}

}  // namespace

Encoding encode_clips(const Model& model) {
  Encoding result;
  const auto& nodes = model.graph.nodes;
  if (model.opset() < kIntegerPools || std::ranges::none_of(nodes, is_max_pool)) return result;
  const GraphView view(model);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto bounds = is_quantize(nodes[i]) ? bounds_of(nodes[i], view) : std::nullopt;
    const Node* pool = bounds ? pool_before(nodes[i], view.edges) : nullptr;
    if (!pool) continue;
    result.clips.push_back({i, bounds->first, bounds->second});
    result.deviate("D55", pool->name);
  }
  return result;
}

}  // namespace seqto::internal
