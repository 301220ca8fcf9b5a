#include "quantization/improve/channel_shifts.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/improve/channel_groups.h"

namespace seqto::internal {
namespace {

const Tensor* float_constant(const GraphView& index, const Node& node, size_t input) {
  if (node.inputs.size() <= input || index.inputs.contains(node.inputs[input])) return nullptr;
  auto it = index.initializers.find(node.inputs[input]);
  return it != index.initializers.end() && it->second->type() == DataType::kFloat ? it->second : nullptr;
}

bool is_plain_gemm(const Node& n) { return !is_gemm(n) || (n.int_attribute("transA", 0) == 0 && !has_factors(n)); }

bool is_padded(const Node& n) {
  const std::string pad = n.string_attribute("auto_pad", "NOTSET");
  if (pad != "NOTSET" && pad != "VALID") return true;
  const Attribute* a = n.attribute("pads");
  const auto* pads = a ? std::get_if<std::vector<int64_t>>(&a->value) : nullptr;
  return pads && std::ranges::any_of(*pads, [](int64_t p) { return p != 0; });
}

class Finder {
 public:
  Finder(const Model& model, const GraphView& index) : model_(model), index_(index), shapes_(model) {}

  ChannelShifts run() {
    const auto& nodes = model_.graph.nodes;
    for (size_t i = nodes.size(); i-- > 0;) pin_inputs(i);
    ChannelShifts found;
    std::unordered_map<std::string, std::map<size_t, int>> sums;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& n = nodes[i];
      if (n.outputs.empty() || pinned(n.outputs[0])) continue;
      std::map<size_t, int> sum;
      if (writes(n)) sum[i] = 1;
      else if (passes(n))
        for (const auto& name : moving_inputs(n))
          for (auto [writer, times] : sums[name]) sum[writer] += times;
      if (sum.empty()) continue;
      const std::string& name = n.outputs[0];
      found.tensors.push_back({{name, shapes_.of(name)->rank}, channels(name), sum});
      sums[name] = std::move(sum);
    }
    for (const auto& [i, name] : readers_)
      if (auto it = sums.find(name); it != sums.end() && !it->second.empty()) found.readers[i] = name;
    return found;
  }

 private:
  // 0 where they are not known.
  int64_t channels(const std::string& tensor) const {
    const auto shape = shapes_.of(tensor);
    return shape ? static_cast<int64_t>(shape->channels) : 0;
  }

  bool pinned(const std::string& tensor) const {
    return pins_.contains(tensor) || index_.outputs.contains(tensor) || index_.captured.contains(tensor) ||
           !index_.is_float(tensor) || channels(tensor) == 0;
  }

  // What a constant added to a channel of the inputs does, it does to the same channel of the output.
  bool passes(const Node& n) const {
    if (!n.domain.empty() || n.outputs.size() != 1 || n.inputs.empty()) return false;
    if (is_average_pool(n)) return n.int_attribute("count_include_pad", 0) == 0 || !is_padded(n);
    if (is_flatten(n)) {
      const Node* pool = index_.edges.producer(n.inputs[0]);
      return n.int_attribute("axis", 1) == 1 && pool && pool->op_type.starts_with("Global");
    }
    return is_add(n) ? adds_channels(n) : has(n, kShifts);
  }

  // The channels of both operands are those of the output.
  bool adds_channels(const Node& n) const {
    const auto to = shapes_.of(n.outputs[0]);
    return to && std::ranges::all_of(moving_inputs(n), [&](const std::string& name) {
             const auto from = shapes_.of(name);
             return from && from->rank == to->rank && from->channels == to->channels;
           });
  }

  std::vector<std::string> moving_inputs(const Node& n) const {
    if (!is_add(n)) return {n.inputs[0]};
    std::vector<std::string> names;
    for (const auto& name : n.inputs)
      if (!index_.is_initializer(name)) names.push_back(name);
    return names;
  }

  // With a bias that is constant, or could be there.
  bool has_own_bias(const Node& n, int64_t outputs) const {
    const auto input = bias_input(n);
    if (!input) return !is_batch_normalization(n);
    const Tensor* bias = float_constant(index_, n, *input);
    return bias && (holds_channels(*bias, outputs) || (is_gemm(n) && bias->element_count() == 1));
  }

  bool writes(const Node& n) const {
    const Tensor* weight = float_constant(index_, n, 1);
    auto axis = weight ? written_axis(n, *weight) : std::nullopt;
    if (!axis || n.outputs.size() != 1 || !is_plain_gemm(n)) return false;
    const int64_t outputs = weight->dims()[axis->axis];
    return outputs > 0 && channels(n.outputs[0]) == outputs && has_own_bias(n, outputs);
  }

  bool reads(const Node& n) const {
    const Tensor* weight = float_constant(index_, n, 1);
    auto axis = weight ? read_axis(n, *weight) : std::nullopt;
    if (!axis || !(is_conv(n) || is_gemm(n)) || is_padded(n) || !is_plain_gemm(n)) return false;
    const int64_t inputs = weight->dims()[axis->axis];
    return inputs > 0 && channels(n.inputs[0]) == inputs &&
           has_own_bias(n, weight->dims()[written_axis(n, *weight)->axis]);
  }

  void pin_inputs(size_t i) {
    const Node& n = model_.graph.nodes[i];
    const bool is_reader = reads(n), stays = !is_reader && (!passes(n) || pinned(n.outputs[0]));
    for_each_read(n, [&](const std::string& name) {
      if (stays || (is_reader && name != n.inputs[0])) pins_.insert(name);
    });
    if (is_reader) readers_[i] = n.inputs[0];
  }

  const Model& model_;
  const GraphView& index_;
  ChannelShapes shapes_;
  std::unordered_set<std::string> pins_;
  std::map<size_t, std::string> readers_;
};

}  // namespace

ChannelShifts find_channel_shifts(const Model& model, const GraphView& index) { return Finder(model, index).run(); }

}  // namespace seqto::internal
