#include "quantization/improve/channel_groups.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "model/op_traits.h"
#include "quantization/plan/links.h"

namespace seqto::internal {
namespace {

const Tensor* float_constant(const GraphView& index, const Node& node, size_t input) {
  if (node.inputs.size() <= input) return nullptr;
  auto it = index.initializers.find(node.inputs[input]);
  bool usable = it != index.initializers.end() && it->second->type() == DataType::kFloat;
  return usable && it->second->element_count() > 0 ? it->second : nullptr;
}

// Clip(0, cap); nothing for any other. One of old opsets that names no cap would have float's largest number.
std::optional<float> cap_of(const Node& node, const GraphView& index) {
  if (index.opset < 11 && !node.attribute("max")) return {};
  const auto bounds = clip_bounds(node, index);
  if (!bounds || bounds->first != 0 || bounds->second <= 0 || std::isinf(bounds->second)) return {};
  return static_cast<float>(bounds->second);
}

constexpr size_t kZero = ChannelGroup::kNoSlot;

class Finder {
 public:
  Finder(const Model& model, const GraphView& index, const ChannelMoves& moves)
      : model_(model), index_(index), moves_(moves), shapes_(model) {}

  std::vector<ChannelGroup> run() {
    for (const Node& n : model_.graph.nodes) join(n);
    gather();
    for (const std::string& name : order_) {
      const bool leaves = index_.inputs.contains(name) || index_.outputs.contains(name) ||
                          index_.captured.contains(name) || moves_.mixed.contains(name);
      if (leaves || !index_.is_float(name)) pin(name);
    }
    for (size_t i = 0; i < model_.graph.nodes.size(); ++i) use(i);
    for (const std::string& name : order_)
      if (ChannelGroup* group = group_of(name)) group->tensors.push_back({{name, shapes_.of(name)->rank}, slots(name)});
    std::vector<ChannelGroup> found;
    for (auto& [id, group] : groups_)
      if (!pinned_.contains(id) && !group.writers.empty() && !group.readers.empty()) found.push_back(std::move(group));
    return found;
  }

 private:
  using Channels = std::vector<size_t>;  // a number for each channel; kZero where there is nothing to scale

  // Empty where they are not known. What was moved has the numbers of what it holds.
  const Channels& channels(const std::string& name) {
    auto [it, added] = channels_.try_emplace(name);
    if (!added) return it->second;
    order_.push_back(name);
    Channels own;
    if (auto origins = moves_.origins.find(name); origins != moves_.origins.end()) {
      for (const ChannelOrigin& origin : origins->second)
        own.push_back(origin.tensor.empty() ? kZero : channels(origin.tensor).at(origin.channel));
    } else if (const auto shape = shapes_.of(name); shape && !moves_.moved.contains(name)) {
      for (size_t c = 0; c < shape->channels; ++c) own.push_back(same_.add());
    }
    return channels_[name] = std::move(own);
  }

  // One channel in, the same channel out, times the same factor.
  bool passes(const Node& n) const {
    if (!n.domain.empty() || n.outputs.size() != 1 || n.inputs.empty()) return false;
    if (is_clip(n)) return cap_of(n, index_).has_value();
    if (is_add(n)) return !index_.is_initializer(n.inputs[0]) && !index_.is_initializer(n.inputs[1]);
    if (is_resize(n)) return n.string_attribute("coordinate_transformation_mode", "") != "tf_crop_and_resize";
    return has(n, kScales);
  }
  static size_t passed_inputs(const Node& n) { return is_add(n) ? 2 : 1; }

  void join(const Node& n) {
    for (const auto* names : {&n.inputs, &n.outputs})
      for (const auto& name : *names)
        if (!name.empty() && !index_.is_initializer(name)) channels(name);
    if (!passes(n)) return;
    const Channels& to = channels(n.outputs[0]);
    for (size_t i = 0; i < passed_inputs(n); ++i) {
      const Channels& from = channels(n.inputs[i]);
      const bool same_axis =
          !to.empty() && from.size() == to.size() && shapes_.of(n.inputs[i])->rank == shapes_.of(n.outputs[0])->rank;
      if (!same_axis) unequal_.insert(&n);  // broadcast, or not known
      else
        for (size_t c = 0; c < to.size(); ++c)
          if (from[c] != kZero) same_.link(from[c], to[c]);
    }
  }

  // All channels of a tensor are of one group.
  void gather() {
    for (size_t i = 0; i < same_.size(); ++i) together_.add();
    for (const auto& [name, channels] : channels_) {
      size_t first = kZero;
      for (size_t c : channels) {
        if (c == kZero) continue;
        if (first == kZero) first = same_.find(c);
        together_.link(first, same_.find(c));
      }
    }
  }

  std::optional<size_t> group_id(const std::string& name) {
    for (size_t c : channels(name))
      if (c != kZero) return together_.find(same_.find(c));
    return {};
  }
  ChannelGroup* group_of(const std::string& name) {
    const auto id = group_id(name);
    return id ? &groups_[*id] : nullptr;
  }
  void pin(const std::string& name) {
    if (const auto id = group_id(name)) pinned_.insert(*id);
  }

  std::vector<size_t> slots(const std::string& name) {
    std::vector<size_t> result;
    for (size_t c : channels(name)) {
      if (c == kZero) {
        result.push_back(ChannelGroup::kNoSlot);
        continue;
      }
      auto [it, added] = slots_.try_emplace(same_.find(c));
      if (added) it->second = group_of(name)->slots++;
      result.push_back(it->second);
    }
    return result;
  }

  void use(size_t i) {
    const Node& n = model_.graph.nodes[i];
    if (moves_.nodes.contains(&n) || (is_shape(n) && n.domain.empty())) return;
    if (passes(n) && !unequal_.contains(&n)) {
      if (is_clip(n)) bound(n);
      return;
    }
    const Tensor* weight = float_constant(index_, n, 1);
    const auto written = weight ? written_axis(n, *weight) : std::nullopt;
    bool writes = written.has_value(), reads = weight && read_axis(n, *weight);
    if (const auto bias = bias_input(n); writes && bias) {
      const Tensor* values = float_constant(index_, n, *bias);
      const int64_t channels = weight->dims()[written->axis];
      writes = values && (values->element_count() == 1 || holds_channels(*values, channels));
    }
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (n.inputs[k].empty() || index_.is_initializer(n.inputs[k])) continue;
      ChannelGroup* group = k == 0 && reads ? group_of(n.inputs[k]) : nullptr;
      if (group) group->readers.push_back({i, slots(n.inputs[k])});
      else pin(n.inputs[k]);
    }
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (n.outputs[k].empty()) continue;
      ChannelGroup* group = k == 0 && writes ? group_of(n.outputs[k]) : nullptr;
      if (group) group->writers.push_back({i, slots(n.outputs[k])});
      else pin(n.outputs[k]);
    }
  }

  void bound(const Node& clip) {
    ChannelGroup* group = group_of(clip.inputs[0]);
    const std::optional<float> own = cap_of(clip, index_);
    if (!group) return;
    if (!own || (group->cap && *group->cap != *own)) pin(clip.inputs[0]);
    group->cap = own;
  }

  const Model& model_;
  const GraphView& index_;
  const ChannelMoves& moves_;
  ChannelShapes shapes_;
  std::unordered_map<std::string, Channels> channels_;
  std::vector<std::string> order_;           // of the names above
  std::unordered_set<const Node*> unequal_;  // that would pass a factor if their shapes were the same
  Links same_;                               // channels that have to be scaled alike
  Links together_;                           // channels of one group, by the first of those that are scaled alike
  std::unordered_map<size_t, size_t> slots_;
  std::map<size_t, ChannelGroup> groups_;
  std::unordered_set<size_t> pinned_;
};

}  // namespace

std::vector<ChannelGroup> find_channel_groups(const Model& model, const GraphView& index, const ChannelMoves& moves) {
  return Finder(model, index, moves).run();
}

std::optional<WeightAxis> written_axis(const Node& node, const Tensor& weight) {
  if (!node.domain.empty()) return {};
  if (is_batch_normalization(node) && node.outputs.size() == 1) return WeightAxis{0, false};
  const auto axis = biased_axis(node, weight.dims().size());
  if (!axis) return {};
  return WeightAxis{*axis, is_conv(node) && weight.dims()[1] == 1};
}

std::optional<WeightAxis> read_axis(const Node& node, const Tensor& weight) {
  const auto axis = summed_axis(node, weight.dims().size());
  if (!node.domain.empty() || !axis || is_matmul(node) || node.int_attribute("transA", 0)) return {};
  const int64_t group = node.int_attribute("group", 1);
  if (group == 1) return WeightAxis{*axis, false};
  if (is_conv(node) && weight.dims()[1] == 1 && weight.dims()[0] == group) return WeightAxis{0, true};
  return {};
}

}  // namespace seqto::internal
