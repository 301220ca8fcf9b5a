// Layers that compute in float16, and Casts only where a tensor goes to a layer of the other type.
#include <unordered_map>

#include "model/graph_view.h"
#include "quantization/improve/graph_edit.h"
#include "quantization/lower/writers.h"

namespace seqto::internal {
namespace {

class Writer {
 public:
  Writer(const Model& model, const Encoding& encoding) : edit_(model), halves_(*encoding.halves) {
    for (const EncodedWeight& weight : encoding.weights) constants_[weight.name] = &weight.stored.codes;
  }

  Model run() {
    const Graph& graph = edit_.model().graph;
    for (const ValueInfo& v : graph.outputs) outputs_.insert(v.name);
    std::vector<Node> old = std::move(edit_.nodes());
    graph_inputs();
    for (size_t i = 0; i < old.size(); ++i) rewrite(std::move(old[i]), i);
    edit_.nodes() = std::move(nodes_);
    Model result = edit_.finish();
    retype(result.graph);
    return result;
  }

 private:
  static std::vector<Attribute> to(DataType type) { return {{"to", static_cast<int64_t>(type)}}; }

  void cast(const std::string& from, const std::string& target, DataType type) {
    nodes_.push_back({edit_.fresh(target + "_cast"), "Cast", "", {from}, {target}, to(type), {}});
  }

  bool becomes_half_output(const std::string& tensor) const {
    return outputs_.contains(tensor) && halves_.inputs_outputs.contains(tensor);
  }

  void graph_inputs() {
    for (const ValueInfo& v : edit_.model().graph.inputs) {
      if (!halves_.inputs_outputs.contains(v.name)) continue;
      half_[v.name] = v.name;
      retyped_.insert(v.name);
      if (!halves_.read_as_float.contains(v.name)) continue;
      renamed_[v.name] = edit_.fresh(v.name + "_float");
      cast(v.name, renamed_[v.name], DataType::kFloat);
    }
  }

  std::string as_half(const std::string& tensor) {
    auto [it, is_new] = half_.try_emplace(tensor);
    if (!is_new) return it->second;
    if (auto constant = constants_.find(tensor); constant != constants_.end())
      return it->second = edit_.add(tensor + "_float16", *constant->second);
    it->second = edit_.fresh(tensor + "_float16");
    cast(as_float(tensor), it->second, DataType::kFloat16);
    return it->second;
  }

  std::string as_float(const std::string& tensor) const {
    auto it = renamed_.find(tensor);
    return it == renamed_.end() ? tensor : it->second;
  }

  void rewrite(Node node, size_t i) {
    const auto half = halves_.inputs(i);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      std::string& input = node.inputs[k];
      if (input.empty()) continue;
      bool either = takes_either_type(node) && half_.contains(input) && !halves_.read_as_float.contains(input);
      input = half.contains(k) || either ? as_half(input) : as_float(input);
    }
    if (halves_.variables[i].empty()) return keep_outputs(std::move(node));
    std::vector<std::pair<std::string, std::string>> casts;
    for (const TypeVariable& v : halves_.variables[i])
      for (size_t o : v.outputs) write_half(node.outputs[o], casts);
    nodes_.push_back(std::move(node));
    for (const auto& [from, target] : casts) cast(from, target, DataType::kFloat);
  }

  // Outputs of layers that stayed float become float16 behind them.
  void keep_outputs(Node node) {
    std::vector<std::string> halves;
    for (std::string& output : node.outputs)
      if (becomes_half_output(output)) {
        halves.push_back(output);
        output = renamed_[output] = edit_.fresh(output + "_float");
      }
    nodes_.push_back(std::move(node));
    for (const std::string& output : halves) {
      cast(renamed_[output], output, DataType::kFloat16);
      half_[output] = output;
      retyped_.insert(output);
    }
  }

  // The output keeps its name where nothing needs it as float.
  void write_half(std::string& output, std::vector<std::pair<std::string, std::string>>& casts) {
    std::string tensor = output;
    if (!halves_.read_as_float.contains(tensor) || becomes_half_output(tensor)) {
      retyped_.insert(tensor);
      half_[tensor] = tensor;
      if (!halves_.read_as_float.contains(tensor)) return;
      renamed_[tensor] = edit_.fresh(tensor + "_float");
      casts.emplace_back(tensor, renamed_[tensor]);
      return;
    }
    output = half_[tensor] = edit_.fresh(tensor + "_float16");
    casts.emplace_back(output, tensor);
  }

  void retype(Graph& graph) const {
    for (auto* list : {&graph.inputs, &graph.outputs, &graph.value_info})
      for (ValueInfo& v : *list)
        if (retyped_.contains(v.name)) v.type = DataType::kFloat16, v.proto.clear();
  }

  GraphEdit edit_;
  const EncodedHalves& halves_;
  std::unordered_map<std::string, const Tensor*> constants_;
  std::unordered_set<std::string> outputs_, retyped_;
  std::unordered_map<std::string, std::string> half_, renamed_;  // tensor -> its float16, float name where it has one
  std::vector<Node> nodes_;
};

}  // namespace

Model write_float16(const Model& model, const Encoding& encoding) { return Writer(model, encoding).run(); }

}  // namespace seqto::internal
