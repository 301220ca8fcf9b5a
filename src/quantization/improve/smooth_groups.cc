#include "quantization/improve/smooth_groups.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "model/op_traits.h"
#include "quantization/calibration/channel_means.h"
#include "quantization/improve/channel_moves.h"
#include "quantization/plan/overrides.h"

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
  Finder(const Model& model, const GraphView& view, const std::vector<std::string>& quantized_ops,
         bool through_products)
      : nodes_(model.graph.nodes), view_(view), through_products_(through_products) {
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
    if (node.inputs.size() <= input || view_.inputs.contains(node.inputs[input])) return nullptr;
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
    if (uses_of_values(group.tensor) == group.readers.size() && walk({group.tensor, -1, rank}, found))
      group = std::move(found);
  }

  // Those that only ask for its shape are none.
  size_t uses_of_values(const std::string& tensor) const {
    const auto shapes = std::ranges::count_if(view_.edges.readers(tensor), [](const Node* n) { return is_shape(*n); });
    return view_.edges.uses(tensor) - static_cast<size_t>(shapes);
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
      if (through_products_ && multiplies_activations(n)) return walk_into_factor(n, at, group);
      if (auto end = ends_at(n, at, group)) return *end;
      auto next = step(n, at, group);
      if (!next) return false;
      // Broadcasting may add axes in front.
      if (is_add(n) || is_mul(n) || group.moved) at.rank.reset();
      if (const Attribute* perm = is_transpose(n) ? n.attribute("perm") : nullptr)
        at.rank = static_cast<int64_t>(std::get<std::vector<int64_t>>(perm->value).size());
      at = {n.inputs[next->first], next->second, at.rank};
      if (uses_of_values(at.tensor) != 1) return false;
    }
  }

  bool multiplies_activations(const Node& n) const {
    return n.domain.empty() && (is_mul(n) || is_matmul(n)) && n.inputs.size() == 2 && !view_.constant(n.inputs[0]) &&
           !view_.constant(n.inputs[1]);
  }

  // Of a matrix product only the second one has the channels.
  bool walk_into_factor(const Node& n, const Place& at, SmoothGroup& group) const {
    if (at.axis != -1) return false;
    for (size_t input = is_mul(n) ? 0 : 1; input < 2; ++input) {
      SmoothGroup found = group;
      if (is_mul(n)) {
        if (!found.source.empty()) continue;
        found.source = n.inputs[input];
      }
      if (uses_of_values(n.inputs[input]) != 1 || !walk({n.inputs[input], -1, {}}, found)) continue;
      group = std::move(found);
      return true;
    }
    return false;
  }

  bool add(const Node& n, size_t input, int64_t axis, SmoothGroup& group) const {
    const Tensor* t = own_constant(n, input);
    if (!t) return false;
    const auto place = normalized_axis(axis, t->dims().size());
    if (!place) return false;
    const int64_t channels = t->dims()[static_cast<size_t>(*place)];
    if (group.source_channels == 0) group.source_channels = group.moved ? channels : group.channels;
    if (channels != group.source_channels) return false;
    group.folds.push_back({view_.edges.place(n), input, static_cast<size_t>(*place)});
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
    // Of a tensor that is taken apart, others read the rest.
    const bool moves = has(n, kDataMovement) && n.outputs.size() == 1;
    if (through_products_ && moves && at.axis == -1) {
      if (!group.moved && !group.source.empty()) return {};
      group.moved = true;
      group.source = n.inputs[0];
      return std::pair{size_t{0}, int64_t{-1}};
    }
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
  bool through_products_;
  std::unordered_map<std::string, int64_t> ranks_;
  std::unordered_set<std::string> quantized_;
};

constexpr const char* kUnnumbered = "_seqto_unnumbered";

// What stands for a channel while values are followed. Two ways: the largest of several channels, or a mean of them, is
// a channel's number in one of them at most, or another channel's.
using Number = double (*)(double channel, double channels);
double ascending(double channel, double) { return channel + 1; }
double falling_squares(double channel, double channels) { return (channels - channel) * (channels - channel); }

// The sources' channels hold their numbers.
Model numbered(const Model& model, const std::vector<SmoothGroup>& groups, Number number) {
  std::unordered_map<std::string, int64_t> sources;
  for (const SmoothGroup& group : groups)
    if (group.moved) sources[group.source] = group.source_channels;
  Model result = model;
  result.graph.nodes.clear();
  for (const Node& node : model.graph.nodes) {
    const size_t place = result.graph.nodes.size();
    result.graph.nodes.push_back(node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto source = sources.find(node.outputs[i]);
      if (source == sources.end()) continue;
      std::vector<float> numbers;
      for (int64_t c = 0; c < source->second; ++c)
        numbers.push_back(static_cast<float>(number(static_cast<double>(c), static_cast<double>(source->second))));
      const std::string given = source->first + kUnnumbered;
      result.graph.nodes[place].outputs[i] = given;
      add_numbered(result.graph, given, float_tensor({source->second}, std::move(numbers)), source->first);
    }
  }
  return result;
}

// Nothing where a channel holds more than one number, or another.
std::vector<size_t> slots_of(const ChannelRange& found, int64_t channels) {
  constexpr float kRounding = 0.1f;  // of a sum whose weights are 1 together
  std::vector<size_t> slots;
  for (size_t c = 0; c < found.highest.size(); ++c) {
    const float number = std::round(found.highest[c]);
    const bool is_one = number >= 1 && number <= static_cast<float>(channels) &&
                        found.highest[c] - number < kRounding && number - found.lowest[c] < kRounding;
    if (!is_one) return {};
    slots.push_back(static_cast<size_t>(number) - 1);
  }
  return slots;
}

bool are_squares_of(const ChannelRange& found, std::span<const size_t> slots, int64_t channels) {
  constexpr double kRounding = 1e-4;
  for (size_t c = 0; c < slots.size(); ++c) {
    const double wanted = falling_squares(static_cast<double>(slots[c]), static_cast<double>(channels));
    if (!(found.highest[c] - wanted < kRounding * wanted && wanted - found.lowest[c] < kRounding * wanted))
      return false;
  }
  return true;
}

}  // namespace

std::vector<SmoothGroup> find_smooth_groups(const Model& model, const GraphView& view,
                                            const std::vector<std::string>& quantized_ops, bool through_products) {
  return Finder(model, view, quantized_ops, through_products).run();
}

void find_slots(const Model& model, std::vector<SmoothGroup>& groups, const SampleRun& on) {
  std::vector<ChannelTensor> moved;
  for (const SmoothGroup& group : groups)
    if (group.moved) moved.push_back({.name = group.tensor, .last_of = group.channels});
  if (moved.empty()) return;
  const SampleRun one{on.data, on.samples.first(1), on.runner, on.env};
  const auto numbers = channel_ranges(numbered(model, groups, ascending), moved, one);
  const auto squares = channel_ranges(numbered(model, groups, falling_squares), moved, one);
  size_t place = 0;
  std::erase_if(groups, [&](SmoothGroup& group) {
    if (!group.moved) return false;
    group.slots = slots_of(numbers[place], group.source_channels);
    const bool same =
        std::ssize(group.slots) == group.channels && are_squares_of(squares[place], group.slots, group.source_channels);
    ++place;
    return !same;
  });
}

}  // namespace seqto::internal
