#include "quantization/encode/fold_weights.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/encode/move_constant.h"
#include "quantization/plan/weight_sites.h"

namespace seqto::internal {
namespace {

class WeightFolder {
 public:
  explicit WeightFolder(Model& model) : model_(model), edges_(model.graph) {
    for (const Initializer& i : model.graph.initializers) constants_[i.name] = i.tensor;
    for (const ValueInfo& v : model.graph.outputs) outputs_.insert(v.name);
    for (const Node& node : model.graph.nodes) move(node);
  }

  // Other constants are left as they are, but for those that an exporter gives a second name.
  bool helps() const {
    if (!same_as_.empty()) return true;
    return std::ranges::any_of(model_.graph.nodes, [&](const Node& node) {
      const bool biased = has(node, kConv) || is_gemm(node);
      if (biased && node.domain.empty() && node.inputs.size() > 2 && moved_.contains(node.inputs[2])) return true;
      return std::ranges::any_of(weight_sites(node, [&](const std::string& name) { return constant(name); }),
                                 [&](const WeightSite& site) { return moved_.contains(node.inputs[site.input]); });
    });
  }

  int write() {
    Graph& graph = model_.graph;
    const auto gone = std::erase_if(
        graph.nodes, [&](const Node& node) { return !node.outputs.empty() && moved_.contains(node.outputs[0]); });
    for (Node& node : graph.nodes)
      for (std::string& input : node.inputs)
        if (auto it = same_as_.find(input); it != same_as_.end()) input = it->second;
    std::erase_if(graph.value_info, [&](const ValueInfo& v) { return moved_.contains(v.name); });
    for (const std::string& name : order_) graph.initializers.push_back({name, constants_.at(name)});
    drop_unused_initializers(graph);
    return static_cast<int>(gone);
  }

 private:
  const Tensor* constant(const std::string& name) const {
    auto it = constants_.find(name);
    return it == constants_.end() ? nullptr : &it->second;
  }

  size_t read_count(const std::string& name) const {
    const auto it = others_.find(name);
    return edges_.uses(name) + (it == others_.end() ? 0 : it->second);
  }

  bool is_weight(const std::string& name) const {
    const Tensor* tensor = constant(name);
    return tensor && tensor->is_float();
  }

  // As PyTorch's exporter puts the gates of an LSTM in ONNX's order.
  bool is_cut_up(const std::string& name) const {
    return std::ranges::all_of(edges_.readers(name), [](const Node* n) { return cuts_constant(*n); });
  }

  void move(const Node& node) {
    const auto is_shown = [&](const std::string& name) { return name.empty() || outputs_.contains(name); };
    if (!moves_constant(node) || std::ranges::any_of(node.outputs, is_shown)) return;
    std::vector<const Tensor*> inputs;
    for (const std::string& name : node.inputs)
      if (!name.empty() && !inputs.emplace_back(constant(name))) return;
    if (inputs.empty() || !inputs[0]->is_float()) return;
    const std::string &source = node.inputs[0], &target = node.outputs[0];
    // A body reads by name what lies around it.
    const bool renames = is_identity(node) && edges_.uses(target) == edges_.readers(target).size();
    // What others read as it is would be stored twice: layers take it through a Transpose (weight_sites.h).
    if (!renames && !is_cut_up(source) && std::ranges::any_of(node.inputs, [&](const std::string& name) {
          return is_weight(name) && read_count(name) > 1;
        }))
      return;
    std::vector<Tensor> results = move_constant(node, inputs);
    if (results.empty()) return;
    // Pieces take no more bytes than what they are of.
    if (cuts_constant(node)) {
      int64_t& taken = cut_[source];
      for (const Tensor& piece : results) taken += std::ssize(piece.bytes());
      if (taken > std::ssize(inputs[0]->bytes())) return;
    }
    for (size_t k = 0; k < results.size(); ++k) {
      constants_[node.outputs[k]] = std::move(results[k]);
      moved_.insert(node.outputs[k]);
      if (!renames) order_.push_back(node.outputs[k]);
    }
    if (!renames) return;
    auto root = same_as_.find(source);
    same_as_[target] = root == same_as_.end() ? source : root->second;
    others_[target] = read_count(source) - 1;
  }

  Model& model_;
  std::unordered_map<std::string, Tensor> constants_;
  const Edges edges_;                                     // until write()
  std::unordered_map<std::string, int64_t> cut_;          // bytes of the pieces that it is cut into
  std::unordered_map<std::string, size_t> others_;        // that read the same value by another name
  std::unordered_map<std::string, std::string> same_as_;  // behind Identity
  std::unordered_set<std::string> outputs_, moved_;
  std::vector<std::string> order_;
};

}  // namespace

int fold_weights(Model& model) {
  if (std::ranges::none_of(model.graph.nodes, moves_constant)) return 0;
  WeightFolder folder(model);
  return folder.helps() ? folder.write() : 0;
}

}  // namespace seqto::internal
