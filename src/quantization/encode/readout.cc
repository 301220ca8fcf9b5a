#include "quantization/encode/readout.h"

#include <algorithm>

#include "model/op_traits.h"
#include "model/sort_nodes.h"

namespace seqto::internal {
namespace {

constexpr int64_t kLeastShare = 10;  // of the model's weights are those of other layers, for each one of the last

class Finder {
 public:
  Finder(const Model& model, const GraphView& view) : nodes_(model.graph.nodes), view_(view) {}

  std::unordered_set<std::string> run() {
    look_upwards();
    if (!joins_) return {};
    std::unordered_set<std::string> tensors;
    const auto take = [&](const std::vector<size_t>& nodes) {
      for (const size_t n : nodes) tensors.insert(nodes_[n].outputs.begin(), nodes_[n].outputs.end());
    };
    take(behind_);
    if (weights_of_last_ * kLeastShare <= weights_) {
      take(last_);
      take_what_only_they_read(tensors);
    }
    tensors.erase("");
    return tensors;
  }

 private:
  // Operators that would round anew, as both of a SiLU, what they write being floats again at once. No Relu, whose
  // codes the layer in front of it writes.
  void take_what_only_they_read(std::unordered_set<std::string>& tensors) const {
    const auto is_taken = [&](const Node* reader) {
      return !reader->outputs.empty() && tensors.contains(reader->outputs[0]);
    };
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Node& n = nodes_[i];
      if (n.outputs.size() != 1 || is_layer(n) || has(n, kProduct | kKeepsCodes | kKeepsScale)) continue;
      const auto readers = view_.edges.readers(n.outputs[0]);
      if (!readers.empty() && std::ranges::all_of(readers, is_taken)) tensors.insert(n.outputs[0]);
    }
  }

  bool is_share(const std::string& tensor) const {
    const Node* producer = view_.edges.producer(tensor);
    while (producer && moves_values(*producer)) producer = view_.edges.producer(producer->inputs[0]);
    return producer && is_softmax(*producer);
  }

  bool is_layer(const Node& n) const {
    if (!n.domain.empty() || has(n, kRecurrent)) return true;
    return has(n, kProduct) && n.inputs.size() > 1 && view_.constant(n.inputs[1]) && !is_share(n.inputs[0]);
  }

  bool is_join(const Node& n) const {
    if (!is_concat(n) || !view_.is_float(n.outputs[0])) return false;
    return std::ranges::count_if(n.inputs, [&](const std::string& name) { return !view_.constant(name); }) > 1;
  }

  void look_upwards() {
    std::unordered_set<std::string> leads_on;  // to a layer
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Node& n = nodes_[i];
      const bool layer = is_layer(n);
      const Tensor* weight = layer && n.inputs.size() > 1 ? view_.constant(n.inputs[1]) : nullptr;
      const int64_t own = weight ? weight->element_count() : 0;
      weights_ += own;
      if (n.outputs.empty()) continue;
      const bool leads = std::ranges::any_of(n.outputs, [&](const auto& name) { return leads_on.contains(name); });
      if (leads || layer) for_each_read(n, [&](const std::string& name) { leads_on.insert(name); });
      if (leads) continue;
      if (layer) last_.push_back(i), weights_of_last_ += own;
      else behind_.push_back(i), joins_ |= is_join(n);
    }
  }

  const std::vector<Node>& nodes_;
  const GraphView& view_;
  std::vector<size_t> behind_, last_;  // places
  bool joins_ = false;
  int64_t weights_ = 0, weights_of_last_ = 0;
};

}  // namespace

std::unordered_set<std::string> readout(const Model& model, const GraphView& view) { return Finder(model, view).run(); }

}  // namespace seqto::internal
