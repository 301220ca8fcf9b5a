#include "quantization/channel_groups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace seqto::internal {
namespace {

bool is_conv(const Node& node) { return node.op_type == "Conv" || node.op_type == "ConvTranspose"; }

const Tensor* float_constant(const GraphIndex& index, const Node& node, size_t input) {
  if (node.inputs.size() <= input) return nullptr;
  auto it = index.initializers.find(node.inputs[input]);
  return it != index.initializers.end() && it->second->type() == DataType::kFloat ? it->second : nullptr;
}

// Clip(0, cap); nothing for any other.
std::optional<float> cap_of(const Node& node, const GraphIndex& index) {
  auto bound = [&](size_t input, const char* attribute) -> std::optional<float> {
    if (index.opset < 11) return node.float_attribute(attribute, -1);
    if (node.inputs.size() <= input) return {};
    for (const auto* constants : {&index.initializers, &index.constants})
      if (auto it = constants->find(node.inputs[input]); it != constants->end() && it->second->element_count() == 1)
        return static_cast<float>(element(*it->second, 0));
    return {};
  };
  auto lowest = bound(1, "min"), highest = bound(2, "max");
  return lowest && *lowest == 0 && highest && *highest > 0 ? highest : std::nullopt;
}

// Sets of tensors, merged as links are found.
class Links {
 public:
  size_t find(const std::string& tensor) {
    auto [it, added] = ids_.emplace(tensor, parents_.size());
    if (added) {
      parents_.push_back(parents_.size());
      names_.push_back(tensor);
    }
    size_t id = it->second;
    while (parents_[id] != id) id = parents_[id] = parents_[parents_[id]];
    return id;
  }
  void link(const std::string& a, const std::string& b) {
    size_t x = find(a), y = find(b);
    parents_[std::max(x, y)] = std::min(x, y);  // a set is known by its first tensor
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::unordered_map<std::string, size_t> ids_;
  std::vector<size_t> parents_;
  std::vector<std::string> names_;
};

class Finder {
 public:
  Finder(const Model& model, const GraphIndex& index) : model_(model), index_(index) {
    for (const Node& n : model.graph.nodes)
      for (const auto& output : n.outputs) producers_[output] = &n;
    for (const auto* list : {&model.graph.value_info, &model.graph.inputs, &model.graph.outputs})
      for (const ValueInfo& v : *list)
        if (v.shape) ranks_[v.name] = v.shape->size();
  }

  std::vector<ChannelGroup> run() {
    for (const Node& n : model_.graph.nodes) join(n);
    std::map<size_t, ChannelGroup> groups;
    std::unordered_set<size_t> pinned;
    for (const std::string& name : std::vector<std::string>(links_.names())) {
      size_t id = links_.find(name);
      auto rank = ranks_.find(name);
      if (!index_.is_float(name) || index_.is_initializer(name) || index_.inputs.contains(name) ||
          index_.outputs.contains(name) || index_.captured.contains(name) || rank == ranks_.end() || rank->second < 2)
        pinned.insert(id);
      else groups[id].tensors.push_back({name, rank->second});
    }
    for (size_t i = 0; i < model_.graph.nodes.size(); ++i) use(i, groups, pinned);
    std::vector<ChannelGroup> found;
    for (auto& [id, group] : groups)
      if (!pinned.contains(id) && !group.writers.empty() && !group.readers.empty()) found.push_back(std::move(group));
    return found;
  }

 private:
  // One channel in, the same channel out, times the same factor.
  bool passes(const Node& n) const {
    static const std::unordered_set<std::string> kHomogeneous{
        "Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Identity", "Dropout"};
    if (!n.domain.empty() || n.outputs.size() != 1 || n.inputs.empty()) return false;
    if (n.op_type == "Clip") return cap_of(n, index_).has_value();
    if (n.op_type == "Add") return !index_.is_initializer(n.inputs[0]) && !index_.is_initializer(n.inputs[1]);
    if (n.op_type == "Flatten" && n.int_attribute("axis", 1) == 1) {
      auto it = producers_.find(n.inputs[0]);
      return it != producers_.end() && it->second->op_type.starts_with("Global");
    }
    return kHomogeneous.contains(n.op_type);
  }

  void join(const Node& n) {
    for (const auto* names : {&n.inputs, &n.outputs})
      for (const auto& name : *names)
        if (!name.empty() && !index_.is_initializer(name)) links_.find(name);
    if (!passes(n)) return;
    size_t data = n.op_type == "Add" ? 2 : 1;
    for (size_t i = 0; i < data; ++i) links_.link(n.inputs[i], n.outputs[0]);
  }

  void use(size_t i, std::map<size_t, ChannelGroup>& groups, std::unordered_set<size_t>& pinned) {
    const Node& n = model_.graph.nodes[i];
    if (passes(n)) {
      if (n.op_type != "Clip") return;
      auto& cap = groups[links_.find(n.inputs[0])].cap;
      float own = *cap_of(n, index_);
      if (cap && *cap != own) pinned.insert(links_.find(n.inputs[0]));
      cap = own;
      return;
    }
    const Tensor* weight = float_constant(index_, n, 1);
    bool writes = weight && written_axis(n, *weight), reads = weight && read_axis(n, *weight);
    if (n.inputs.size() > 2 && !n.inputs[2].empty() && !float_constant(index_, n, 2)) writes = false;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (n.inputs[k].empty() || index_.is_initializer(n.inputs[k])) continue;
      size_t id = links_.find(n.inputs[k]);
      if (k == 0 && reads) groups[id].readers.push_back(i);
      else pinned.insert(id);
    }
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (n.outputs[k].empty()) continue;
      size_t id = links_.find(n.outputs[k]);
      if (k == 0 && writes) groups[id].writers.push_back(i);
      else pinned.insert(id);
    }
  }

  const Model& model_;
  const GraphIndex& index_;
  std::unordered_map<std::string, const Node*> producers_;
  std::unordered_map<std::string, size_t> ranks_;
  Links links_;
};

}  // namespace

std::vector<ChannelGroup> find_channel_groups(const Model& model, const GraphIndex& index) {
  return Finder(model, index).run();
}

std::optional<WeightAxis> written_axis(const Node& node, const Tensor& weight) {
  if (!node.domain.empty()) return {};
  if (node.op_type == "BatchNormalization" && node.outputs.size() == 1) return WeightAxis{0, false};
  if (weight.dims().size() < 2) return {};
  if (node.op_type == "Conv") return WeightAxis{0, weight.dims()[1] == 1};
  if (node.op_type == "ConvTranspose" && node.int_attribute("group", 1) == 1) return WeightAxis{1, false};
  if (node.op_type == "Gemm") return WeightAxis{node.int_attribute("transB", 0) ? size_t{0} : size_t{1}, false};
  return {};
}

std::optional<WeightAxis> read_axis(const Node& node, const Tensor& weight) {
  if (!node.domain.empty() || weight.dims().size() < 2) return {};
  int64_t group = node.int_attribute("group", 1);
  if (is_conv(node) && group == 1) return WeightAxis{node.op_type == "Conv" ? size_t{1} : size_t{0}, false};
  if (node.op_type == "Conv" && weight.dims()[1] == 1 && weight.dims()[0] == group) return WeightAxis{0, true};
  if (node.op_type == "Gemm" && !node.int_attribute("transA", 0))
    return WeightAxis{node.int_attribute("transB", 0) ? size_t{1} : size_t{0}, false};
  return {};
}

}  // namespace seqto::internal
