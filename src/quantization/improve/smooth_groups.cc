#include "quantization/improve/smooth_groups.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "model/op_traits.h"

namespace seqto::internal {
namespace {

// What scales along the last axis, whatever its domain: the inputs with the scale and with the bias, 0 for none.
struct LastAxisNorm {
  std::string_view op_type;
  size_t scale, bias;
};
constexpr LastAxisNorm kLastAxisNorms[] = {{"LayerNormalization", 1, 2},
                                           {"RMSNormalization", 1, 2},
                                           {"SimplifiedLayerNormalization", 1, 2},
                                           {"SkipLayerNormalization", 2, 3},
                                           {"SkipSimplifiedLayerNormalization", 2, 0}};

class Finder {
 public:
  Finder(const Model& model, const GraphView& view, const std::vector<std::string>& quantized_ops)
      // Before IR version 4 every initializer is listed as an input.
      : nodes_(model.graph.nodes), view_(view), replaceable_(model.ir_version >= 4) {
    quantized_.insert(quantized_ops.begin(), quantized_ops.end());
    const Graph& graph = model.graph;
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
      int64_t channels = view_.initializers.at(nodes_[n].inputs[1])->dims()[*axis];
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
    if (node.inputs.size() <= input || (replaceable_ && view_.inputs.contains(node.inputs[input]))) return nullptr;
    auto it = view_.initializers.find(node.inputs[input]);
    if (it == view_.initializers.end() || it->second->type() != DataType::kFloat) return nullptr;
    return view_.edges.uses(it->first) == 1 ? it->second : nullptr;
  }

  std::optional<size_t> reading_axis(const Node& n) const {
    if (!n.domain.empty() || !has(n, kMatrixProduct) || n.int_attribute("transA", 0)) return {};
    const Tensor* weight = own_constant(n, 1);
    if (!weight || weight->dims().size() != 2 || weight->element_count() == 0) return {};
    return view_.is_initializer(n.inputs[0]) ? std::nullopt : summed_axis(n, 2);
  }

  void find_folds(SmoothGroup& group) const {
    std::optional<int64_t> rank;
    for (const ChannelConstant& r : group.readers)
      if (is_gemm(nodes_[r.node])) rank = 2;
    SmoothGroup found = group;
    if (view_.edges.uses(group.tensor) == group.readers.size() && walk({group.tensor, -1, rank}, found))
      group = std::move(found);
  }

  // A tensor and the axis of its channels, counted from the end as broadcasting does.
  struct Place {
    std::string tensor;
    int64_t axis = -1;
    std::optional<int64_t> rank;
  };

  // Upwards through operators that a positive factor passes, to one that has a constant for each channel.
  bool walk(Place at, SmoothGroup& group) const {
    for (;;) {
      const Node* producer = view_.edges.producer(at.tensor);
      if (!producer) return false;
      const Node& n = *producer;
      if (!at.rank)
        if (auto it = ranks_.find(at.tensor); it != ranks_.end()) at.rank = it->second;
      if (n.outputs[0] != at.tensor || n.inputs.empty()) return false;
      if (auto end = ends_at(n, at, group)) return *end;
      auto next = step(n, at, group);
      if (!next) return false;
      // Broadcasting may add axes in front.
      if (is_add(n) || is_mul(n)) at.rank.reset();
      if (const Attribute* perm = is_transpose(n) ? n.attribute("perm") : nullptr)
        at.rank = static_cast<int64_t>(std::get<std::vector<int64_t>>(perm->value).size());
      at = {n.inputs[next->first], next->second, at.rank};
      if (view_.edges.uses(at.tensor) != 1) return false;
    }
  }

  bool add(const Node& n, size_t input, int64_t axis, SmoothGroup& group) const {
    const Tensor* t = own_constant(n, input);
    if (!t) return false;
    int64_t place = axis < 0 ? axis + static_cast<int64_t>(t->dims().size()) : axis;
    if (place < 0 || t->dims()[static_cast<size_t>(place)] != group.channels) return false;
    group.folds.push_back({view_.edges.place(n), input, static_cast<size_t>(place)});
    return true;
  }

  bool add_optional(const Node& n, size_t input, int64_t axis, SmoothGroup& group) const {
    return n.inputs.size() <= input || n.inputs[input].empty() || add(n, input, axis, group);
  }

  // Whether the division ends in this node's constants; nothing where it may go on.
  std::optional<bool> ends_at(const Node& n, const Place& at, SmoothGroup& group) const {
    bool last = at.axis == -1, second = at.rank && *at.rank + at.axis == 1;
    for (const LastAxisNorm& norm : kLastAxisNorms)
      if (n.op_type == norm.op_type)
        return last && add(n, norm.scale, -1, group) && (norm.bias == 0 || add_optional(n, norm.bias, -1, group));
    if (!n.domain.empty()) return false;
    if (is_batch_normalization(n)) return second && n.outputs.size() == 1 && add(n, 1, 0, group) && add(n, 2, 0, group);
    if (is_conv(n) || has(n, kMatrixProduct)) {
      const Tensor* weight = own_constant(n, 1);
      const auto axis = weight ? output_axis(n, weight->dims().size()) : std::nullopt;
      if (!axis) return false;
      const auto rank = static_cast<int64_t>(weight->dims().size());
      return (is_conv(n) ? rank + at.axis == 1 : rank == 2 && last) && add(n, 1, static_cast<int64_t>(*axis), group) &&
             add_optional(n, 2, -1, group);
    }
    if (is_mul(n))
      for (size_t input : {size_t{0}, size_t{1}})
        if (add(n, input, at.axis, group)) return true;
    return {};
  }

  // The input that the division goes on to, and its axis there.
  std::optional<std::pair<size_t, int64_t>> step(const Node& n, const Place& at, SmoothGroup& group) const {
    const bool activates = is_relu(n) || is_leaky_relu(n);
    if (activates && quantized_.contains(n.op_type)) return {};
    if (activates || is_identity(n)) return std::pair{size_t{0}, at.axis};
    if (const Attribute* perm = is_transpose(n) ? n.attribute("perm") : nullptr) {
      const auto& order = std::get<std::vector<int64_t>>(perm->value);
      int64_t rank = static_cast<int64_t>(order.size());
      if (rank + at.axis < 0) return {};
      return std::pair{size_t{0}, order[static_cast<size_t>(rank + at.axis)] - rank};
    }
    if (!is_add(n) && !is_mul(n)) return {};
    for (size_t input : {size_t{0}, size_t{1}}) {
      auto it = view_.initializers.find(n.inputs[input]);
      if (it == view_.initializers.end()) continue;
      // A Mul by one number is passed; an Add has to take part.
      bool passed =
          is_mul(n) ? it->second->element_count() == 1 && it->second->dims().size() < 2 : add(n, input, at.axis, group);
      if (passed) return std::pair{1 - input, at.axis};
    }
    return {};
  }

  const std::vector<Node>& nodes_;
  const GraphView& view_;
  bool replaceable_;  // whether an initializer that is an input is a default
  std::unordered_map<std::string, int64_t> ranks_;
  std::unordered_set<std::string> quantized_;
};

}  // namespace

std::vector<SmoothGroup> find_smooth_groups(const Model& model, const GraphView& view,
                                            const std::vector<std::string>& quantized_ops) {
  return Finder(model, view, quantized_ops).run();
}

}  // namespace seqto::internal
