#include "quantization/improve/smooth_groups.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "model/sort_nodes.h"

namespace seqto::internal {
namespace {

class Finder {
 public:
  Finder(const Model& model, const std::vector<std::string>& quantized_ops) : nodes_(model.graph.nodes) {
    quantized_.insert(quantized_ops.begin(), quantized_ops.end());
    const Graph& graph = model.graph;
    for (const Initializer& i : graph.initializers) constants_[i.name] = &i.tensor;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for_each_read(nodes_[n], [&](const std::string& name) { ++uses_[name]; });
      for (const auto& output : nodes_[n].outputs)
        if (!output.empty()) producers_[output] = n;
    }
    for (const ValueInfo& v : graph.outputs) ++uses_[v.name];
    // Before IR version 4 every initializer is listed as an input.
    if (model.ir_version >= 4)
      for (const ValueInfo& v : graph.inputs) replaceable_.insert(v.name);
    for (const auto* list : {&graph.value_info, &graph.inputs, &graph.outputs})
      for (const ValueInfo& v : *list)
        if (v.shape) ranks_[v.name] = static_cast<int64_t>(v.shape->size());
  }

  std::vector<SmoothGroup> run() {
    std::vector<SmoothGroup> groups;
    std::unordered_map<std::string, size_t> places;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      auto axis = reading_axis(nodes_[n]);
      if (!axis) continue;
      const std::string& tensor = nodes_[n].inputs[0];
      int64_t channels = constants_.at(nodes_[n].inputs[1])->dims()[*axis];
      auto [place, added] = places.try_emplace(tensor, groups.size());
      if (added) groups.push_back({tensor, channels, {}, {}});
      SmoothGroup& group = groups[place->second];
      if (group.channels == channels) group.readers.push_back({n, 1, *axis});
    }
    std::erase_if(groups, [](const SmoothGroup& g) { return g.channels < 2; });
    for (SmoothGroup& group : groups) find_folds(group);
    return groups;
  }

 private:
  const Tensor* own_constant(const Node& node, size_t input) const {
    if (node.inputs.size() <= input || replaceable_.contains(node.inputs[input])) return nullptr;
    auto it = constants_.find(node.inputs[input]);
    if (it == constants_.end() || it->second->type() != DataType::kFloat || uses_.at(it->first) != 1) return nullptr;
    return it->second;
  }

  std::optional<size_t> reading_axis(const Node& n) const {
    bool gemm = n.op_type == "Gemm" && !n.int_attribute("transA", 0);
    if (!n.domain.empty() || (n.op_type != "MatMul" && !gemm) || n.inputs.size() < 2) return {};
    const Tensor* weight = own_constant(n, 1);
    if (!weight || weight->dims().size() != 2 || weight->element_count() == 0) return {};
    if (constants_.contains(n.inputs[0])) return {};
    return gemm && n.int_attribute("transB", 0) ? size_t{1} : size_t{0};
  }

  void find_folds(SmoothGroup& group) const {
    std::optional<int64_t> rank;
    for (const ChannelConstant& r : group.readers)
      if (nodes_[r.node].op_type == "Gemm") rank = 2;
    std::vector<ChannelConstant> folds;
    if (uses_.at(group.tensor) == static_cast<int>(group.readers.size()) &&
        walk({group.tensor, -1, rank}, group.channels, folds))
      group.folds = std::move(folds);
  }

  // A tensor and the axis of its channels, counted from the end as broadcasting does.
  struct Place {
    std::string tensor;
    int64_t axis = -1;
    std::optional<int64_t> rank;
  };

  // Upwards through operators that a positive factor passes, to one that has a constant for each channel.
  bool walk(Place at, int64_t channels, std::vector<ChannelConstant>& folds) const {
    for (;;) {
      auto producer = producers_.find(at.tensor);
      if (producer == producers_.end()) return false;
      const Node& n = nodes_[producer->second];
      if (!at.rank)
        if (auto it = ranks_.find(at.tensor); it != ranks_.end()) at.rank = it->second;
      if (n.outputs[0] != at.tensor || n.inputs.empty()) return false;
      if (auto end = ends_at(n, producer->second, at, channels, folds)) return *end;
      auto next = step(n, producer->second, at, channels, folds);
      if (!next) return false;
      // Broadcasting may add axes in front.
      if (n.op_type == "Add" || n.op_type == "Mul") at.rank.reset();
      if (const Attribute* perm = n.op_type == "Transpose" ? n.attribute("perm") : nullptr)
        at.rank = static_cast<int64_t>(std::get<std::vector<int64_t>>(perm->value).size());
      at = {n.inputs[next->first], next->second, at.rank};
      if (auto it = uses_.find(at.tensor); it == uses_.end() || it->second != 1) return false;
    }
  }

  bool add(const Node& n, size_t i, size_t input, int64_t axis, int64_t channels,
           std::vector<ChannelConstant>& folds) const {
    const Tensor* t = own_constant(n, input);
    if (!t) return false;
    int64_t place = axis < 0 ? axis + static_cast<int64_t>(t->dims().size()) : axis;
    if (place < 0 || t->dims()[static_cast<size_t>(place)] != channels) return false;
    folds.push_back({i, input, static_cast<size_t>(place)});
    return true;
  }

  bool add_optional(const Node& n, size_t i, size_t input, int64_t axis, int64_t channels,
                    std::vector<ChannelConstant>& folds) const {
    return n.inputs.size() <= input || n.inputs[input].empty() || add(n, i, input, axis, channels, folds);
  }

  // Whether the division ends in this node's constants; nothing where it may go on.
  std::optional<bool> ends_at(const Node& n, size_t i, const Place& at, int64_t channels,
                              std::vector<ChannelConstant>& folds) const {
    const std::string& op = n.op_type;
    bool last = at.axis == -1, second = at.rank && *at.rank + at.axis == 1;
    if (op == "LayerNormalization" || op == "SimplifiedLayerNormalization" || op == "RMSNormalization")
      return last && add(n, i, 1, -1, channels, folds) && add_optional(n, i, 2, -1, channels, folds);
    if (op == "SkipLayerNormalization")
      return last && add(n, i, 2, -1, channels, folds) && add_optional(n, i, 3, -1, channels, folds);
    if (op == "SkipSimplifiedLayerNormalization") return last && add(n, i, 2, -1, channels, folds);
    if (!n.domain.empty()) return false;
    if (op == "BatchNormalization")
      return second && n.outputs.size() == 1 && add(n, i, 1, 0, channels, folds) && add(n, i, 2, 0, channels, folds);
    if (op == "Conv") {
      const Tensor* weight = own_constant(n, 1);
      return weight && static_cast<int64_t>(weight->dims().size()) + at.axis == 1 && add(n, i, 1, 0, channels, folds) &&
             add_optional(n, i, 2, 0, channels, folds);
    }
    if (op == "MatMul") {
      const Tensor* weight = own_constant(n, 1);
      return last && weight && weight->dims().size() == 2 && add(n, i, 1, -1, channels, folds);
    }
    if (op == "Gemm")
      return last && add(n, i, 1, n.int_attribute("transB", 0) ? 0 : 1, channels, folds) &&
             add_optional(n, i, 2, -1, channels, folds);
    if (op == "Mul")
      for (size_t input : {size_t{0}, size_t{1}})
        if (add(n, i, input, at.axis, channels, folds)) return true;
    return {};
  }

  // The input that the division goes on to, and its axis there.
  std::optional<std::pair<size_t, int64_t>> step(const Node& n, size_t i, const Place& at, int64_t channels,
                                                 std::vector<ChannelConstant>& folds) const {
    static const std::unordered_set<std::string> kHomogeneous{"Relu", "LeakyRelu", "Identity"};
    if (kHomogeneous.contains(n.op_type) && n.op_type != "Identity" && quantized_.contains(n.op_type)) return {};
    if (kHomogeneous.contains(n.op_type)) return std::pair{size_t{0}, at.axis};
    if (const Attribute* perm = n.op_type == "Transpose" ? n.attribute("perm") : nullptr) {
      const auto& order = std::get<std::vector<int64_t>>(perm->value);
      int64_t rank = static_cast<int64_t>(order.size());
      if (rank + at.axis < 0) return {};
      return std::pair{size_t{0}, order[static_cast<size_t>(rank + at.axis)] - rank};
    }
    if (n.op_type != "Add" && n.op_type != "Mul") return {};
    for (size_t input : {size_t{0}, size_t{1}}) {
      auto it = constants_.find(n.inputs[input]);
      if (it == constants_.end()) continue;
      // A Mul by one number is passed; an Add has to take part.
      bool passed = n.op_type == "Mul" ? it->second->element_count() == 1 && it->second->dims().size() < 2
                                       : add(n, i, input, at.axis, channels, folds);
      if (passed) return std::pair{1 - input, at.axis};
    }
    return {};
  }

  const std::vector<Node>& nodes_;
  std::unordered_map<std::string, const Tensor*> constants_;
  std::unordered_map<std::string, size_t> producers_;
  std::unordered_map<std::string, int> uses_;
  std::unordered_map<std::string, int64_t> ranks_;
  std::unordered_set<std::string> replaceable_, quantized_;
};

}  // namespace

std::vector<SmoothGroup> find_smooth_groups(const Model& model, const std::vector<std::string>& quantized_ops) {
  return Finder(model, quantized_ops).run();
}

}  // namespace seqto::internal
