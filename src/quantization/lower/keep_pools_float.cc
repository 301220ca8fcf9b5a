// The runtime takes a QuantizeLinear past a MaxPool and what moves values to where they come from. Behind a float layer
// that gives a MaxPool of bytes in the layout that it has no fast kernel for: 4.9 ms instead of 0.15 in squeezenet11.
// It does not take it past a Clip. One with the bounds of the codes changes nothing, and the runtime drops it later.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "model/sort_nodes.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/encode/marks.h"
#include "quantization/lower/writers.h"
#include "quantization/plan/overrides.h"

namespace seqto::internal {
namespace {

constexpr int64_t kIntegerPools = 12;  // the opset that MaxPool of bytes came with

class Guard {
 public:
  explicit Guard(Model& model) : graph_(model.graph) {
    for (const Node& n : graph_.nodes) {
      for (const auto& output : n.outputs) producers_[output] = &n;
      for_each_read(n, [&](const std::string& name) { ++reads_[name]; });
    }
    for (const ValueInfo& output : graph_.outputs) ++reads_[output.name];
    for (const Initializer& i : graph_.initializers) constants_[i.name] = &i.tensor;
  }

  // The MaxPool that this Q would be taken past; null where there is none.
  const Node* pool_before(const Node& q) const {
    if (q.op_type != "QuantizeLinear" || !bounds_of(q)) return nullptr;
    const Node* node = only_producer(q.inputs[0]);
    while (node && moves_values(*node)) node = only_producer(node->inputs[0]);
    if (!node || node->op_type != "MaxPool" || !node->domain.empty()) return nullptr;
    // Behind a DQ it is an integer one from the other side, and in the layout that is fast.
    const Node* source = producer(node->inputs[0]);
    while (source && moves_values(*source)) source = producer(source->inputs[0]);
    return source && source->op_type == "DequantizeLinear" ? nullptr : node;
  }

  // A Clip in front of the Q, with its constants.
  Node clip_for(Node& q) {
    const auto [lowest, highest] = *bounds_of(q);
    const std::string tensor = q.inputs[0], bounded = tensor + "_bounded";
    Node clip{bounded, "Clip", "", {tensor, bounded + "_min", bounded + "_max"}, {bounded}, {}, {}};
    added_.push_back({clip.inputs[1], float_tensor({}, {lowest})});
    added_.push_back({clip.inputs[2], float_tensor({}, {highest})});
    q.inputs[0] = bounded;
    return clip;
  }

  void finish(std::vector<Node> nodes) {
    graph_.nodes = std::move(nodes);
    std::ranges::move(added_, std::back_inserter(graph_.initializers));
  }

 private:
  const Node* producer(const std::string& tensor) const {
    auto it = producers_.find(tensor);
    return it == producers_.end() ? nullptr : it->second;
  }

  const Node* only_producer(const std::string& tensor) const {
    auto it = reads_.find(tensor);
    return it != reads_.end() && it->second == 1 ? producer(tensor) : nullptr;
  }

  // What its codes stand for, of 8 bits and one scale.
  std::optional<std::pair<float, float>> bounds_of(const Node& q) const {
    if (q.inputs.size() < 3) return {};
    auto scale = constants_.find(q.inputs[1]), zero = constants_.find(q.inputs[2]);
    if (scale == constants_.end() || zero == constants_.end()) return {};
    const Tensor &s = *scale->second, &z = *zero->second;
    if (s.type() != DataType::kFloat || s.element_count() != 1 || !is_8_bits(z.type())) return {};
    const QuantLimits limits = quant_limits(z.type());
    const float step = s.values<float>()[0];
    const auto zero_point = static_cast<int32_t>(element(z, 0));
    return std::pair{static_cast<float>(limits.lowest - zero_point) * step,
                     static_cast<float>(limits.highest - zero_point) * step};
  }

  Graph& graph_;
  std::unordered_map<std::string, const Node*> producers_;
  std::unordered_map<std::string, int> reads_;
  std::unordered_map<std::string, const Tensor*> constants_;
  std::vector<Initializer> added_;
};

}  // namespace

void keep_pools_float(Model& model, Encoding& encoding) {
  auto& nodes = model.graph.nodes;
  if (model.opset() < kIntegerPools) return;
  if (std::ranges::none_of(nodes, [](const Node& n) { return n.op_type == "MaxPool"; })) return;
  std::unordered_map<size_t, LayerId> found;  // place of Q -> MaxPool
  Guard guard(model);
  for (size_t i = 0; i < nodes.size(); ++i)
    if (const Node* pool = guard.pool_before(nodes[i])) found[i] = pool->name;
  if (found.empty()) return;
  std::vector<Node> guarded;
  guarded.reserve(nodes.size() + found.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (auto it = found.find(i); it != found.end()) {
      guarded.push_back(guard.clip_for(nodes[i]));
      encoding.deviate("D55", it->second);
    }
    guarded.push_back(std::move(nodes[i]));
  }
  guard.finish(std::move(guarded));
}

}  // namespace seqto::internal
