// Observers in the graph that the runtime made of a model.
#include <algorithm>
#include <unordered_set>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "runner/insert_observers.h"

namespace seqto::internal {
namespace {

std::unordered_set<std::string> names_of(const std::vector<ValueInfo>& list) {
  std::unordered_set<std::string> names;
  for (const ValueInfo& v : list) names.insert(v.name);
  return names;
}

// The bounds of a Clip or Relu on floats, where they are constants.
std::optional<Bounds> bounds_of(const Node& node, const GraphView& view) {
  if (!node.domain.empty() || !has(node, kClips)) return std::nullopt;
  const auto bounds = clip_bounds(node, view);
  if (!bounds) return std::nullopt;
  return Bounds{static_cast<float>(bounds->first), static_cast<float>(bounds->second)};
}

// A tensor of the optimised graph that holds an observed one.
struct Place {
  int64_t tensor = -1, channels = 0;
};

class Rewriter {
 public:
  Rewriter(const Model& optimized, const Model& original, const Preparation& preparation,
           std::span<const std::string> tensors, int64_t block)
      : preparation_(preparation),
        tensors_(tensors),
        block_(block),
        kept_outputs_(names_of(original.graph.outputs)),
        view_(optimized) {
    result_.model = optimized;
    const auto inputs = original.graph.free_inputs();
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t].empty()) continue;
      wanted_[tensors[t]] = t;
      for (size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].name == tensors[t]) result_.inputs.push_back({t, i});
    }
  }

  std::optional<Instrumented> run() {
    if (!find_places() || !find_activations()) return std::nullopt;
    rewrite();
    std::erase_if(result_.model.graph.outputs, [&](const ValueInfo& v) { return !kept_outputs_.contains(v.name); });
    result_.model.opsets.push_back({kObserveDomain, 1});
    return std::move(result_);
  }

 private:
  // Where every wanted tensor is now; false when one is nowhere.
  bool find_places() {
    std::unordered_set<size_t> found;
    for (const auto& input : result_.inputs) found.insert(input.tensor);
    for (const Initializer& i : result_.model.graph.initializers)
      if (auto it = wanted_.find(i.name); it != wanted_.end() && found.insert(it->second).second)
        result_.constants.push_back({it->second, i.tensor});
    for (const Node& n : result_.model.graph.nodes) {
      for (const auto& output : n.outputs) {
        auto it = wanted_.find(output);
        if (it == wanted_.end()) continue;
        found.insert(it->second);
        if (places_.contains(n.inputs.empty() ? "" : n.inputs[0]) || !only_for_us(n)) {
          places_[output] = {static_cast<int64_t>(it->second), 0};
          continue;
        }
        places_[n.inputs[0]] = {static_cast<int64_t>(it->second), n.int_attribute("channels", 0)};
        dropped_.insert(output);
      }
    }
    size_t named =
        static_cast<size_t>(std::count_if(tensors_.begin(), tensors_.end(), [](auto& t) { return !t.empty(); }));
    return found.size() == named;
  }

  // A change of layout that nothing but the observed output needs.
  bool only_for_us(const Node& n) const {
    return n.op_type == "ReorderOutput" && n.domain == kBlockedDomain && n.int_attribute("channels_last", 0) == 0 &&
           view_.read_count(n.outputs[0]) == 0 && !view_.captured.contains(n.outputs[0]) &&
           !kept_outputs_.contains(n.outputs[0]);
  }

  // Every Clip must have survived as the Relu that stands for it.
  bool find_activations() {
    size_t found = 0;
    for (const Node& n : result_.model.graph.nodes)
      if (auto it = preparation_.activations.find(n.name); it != preparation_.activations.end())
        found += is_relu(n) && n.domain.empty();
    return found == preparation_.activations.size();
  }

  void rewrite() {
    std::unordered_set<std::string> shown;  // by an ObserveClip
    std::vector<Node> nodes;
    for (const Node& n : result_.model.graph.nodes) {
      auto it = preparation_.activations.find(n.name);
      if (it == preparation_.activations.end()) continue;
      shown.insert(n.inputs[0]);
      shown.insert(n.outputs[0]);
    }
    std::unordered_set<std::string> done;
    for (Node& n : result_.model.graph.nodes) {
      if (n.outputs.size() == 1 && dropped_.contains(n.outputs[0])) continue;
      if (auto it = preparation_.activations.find(n.name); it != preparation_.activations.end()) {
        nodes.push_back(clip(n, it->second, done));
        continue;
      }
      std::vector<Node> observers;
      for (std::string& output : n.outputs)
        if (auto it = places_.find(output); it != places_.end() && !shown.contains(output)) {
          observers.push_back(observe(output, it->second));
          output += "_unobserved";
        }
      nodes.push_back(std::move(n));
      std::move(observers.begin(), observers.end(), std::back_inserter(nodes));
    }
    result_.model.graph.nodes = std::move(nodes);
  }

  Node observe(const std::string& output, Place place) const {
    Node node{output + "_observe", "Observe", kObserveDomain, {output + "_unobserved"}, {output}, {}, {}};
    node.set_attribute({"tensor", place.tensor});
    set_layout(node, place.channels);
    return node;
  }

  Node clip(const Node& activation, Bounds bounds, std::unordered_set<std::string>& done) const {
    const std::string &input = activation.inputs[0], &output = activation.outputs[0];
    auto before = places_.find(input), after = places_.find(output);
    const char* type = owned(input) ? "ObserveClipInPlace" : "ObserveClip";
    Node node{activation.name, type, kObserveDomain, {input}, {output}, {}, {}};
    // Of several readers of one tensor the first shows it.
    const bool show = before != places_.end() && done.insert(input).second;
    done.insert(output);
    node.set_attribute({"tensor", show ? before->second.tensor : int64_t{-1}});
    node.set_attribute({"clipped_tensor", after != places_.end() ? after->second.tensor : int64_t{-1}});
    node.set_attribute({"lowest", bounds.lowest});
    node.set_attribute({"highest", bounds.highest});
    set_layout(node, before != places_.end()  ? before->second.channels
                     : after != places_.end() ? after->second.channels
                                              : 0);
    return node;
  }

  // Made in memory of its own, by an op that never passes an input on, and read once.
  bool owned(const std::string& tensor) const {
    const Node* producer = view_.edges.producer(tensor);
    const auto is_kept = [&](const Node* reader) {
      return reader->outputs.size() != 1 || !dropped_.contains(reader->outputs[0]);
    };
    return producer && is_conv(*producer) && producer->outputs.size() == 1 && !kept_outputs_.contains(tensor) &&
           !view_.captured.contains(tensor) && std::ranges::count_if(view_.edges.readers(tensor), is_kept) == 1;
  }

  void set_layout(Node& node, int64_t channels) const {
    node.set_attribute({"channels", channels});
    node.set_attribute({"block", channels > 0 ? block_ : int64_t{0}});
  }

  const Preparation& preparation_;
  std::span<const std::string> tensors_;
  int64_t block_;
  std::unordered_set<std::string> kept_outputs_, dropped_;
  GraphView view_;  // of the optimised model
  std::unordered_map<std::string, size_t> wanted_;
  std::unordered_map<std::string, Place> places_;
  Instrumented result_;
};

}  // namespace

bool has_blocks(const Model& optimized) {
  return std::ranges::any_of(optimized.graph.nodes, [](const Node& n) { return n.domain == kBlockedDomain; });
}

Preparation prepare_for_optimizing(const Model& model, std::span<const std::string> tensors) {
  Preparation result{model, {}};
  Graph& graph = result.model.graph;
  const GraphView view(model);
  std::unordered_set<std::string> observed(tensors.begin(), tensors.end());
  std::unordered_map<std::string, DataType> types;
  for (const ValueInfo& v : graph.value_info) types[v.name] = v.type;
  for (Node& n : graph.nodes) {
    // Others may be fused as the runtime likes.
    auto type = types.find(n.outputs.empty() ? "" : n.outputs[0]);
    if (type == types.end() || type->second != DataType::kFloat) continue;
    if (n.inputs.empty() || !observed.contains(n.inputs[0]) || !observed.contains(n.outputs[0])) continue;
    auto bounds = bounds_of(n, view);
    if (!bounds) continue;
    result.activations[n.name] = *bounds;
    n.op_type = "Relu";
    n.inputs.resize(1);
    n.attributes.clear();
  }
  auto outputs = names_of(graph.outputs);
  const auto inputs = names_of(graph.inputs);
  for (const auto& tensor : tensors)
    if (auto it = types.find(tensor); it != types.end() && !inputs.contains(tensor) && outputs.insert(tensor).second)
      graph.outputs.push_back({tensor, it->second, std::nullopt, ""});
  return result;
}

std::optional<Instrumented> observe_optimized(const Model& optimized, const Model& original,
                                              const Preparation& preparation, std::span<const std::string> tensors,
                                              int64_t block) {
  return Rewriter(optimized, original, preparation, tensors, block).run();
}

}  // namespace seqto::internal
