#include "runner/insert_observers.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "model/graph_view.h"

namespace seqto::internal {
namespace {

std::string unused_name(const std::string& wish, std::unordered_set<std::string>& used) {
  std::string name = wish;
  while (!used.insert(name).second) name += "_";
  return name;
}

std::unordered_set<std::string> used_names(const Graph& graph) {
  std::unordered_set<std::string> used;
  for (const Node& node : graph.nodes) used.insert(node.outputs.begin(), node.outputs.end());
  for (const ValueInfo& v : graph.inputs) used.insert(v.name);
  for (const Initializer& i : graph.initializers) used.insert(i.name);
  return used;
}

}  // namespace

Instrumented insert_observers(const Model& model, std::span<const std::string> tensors) {
  Instrumented result{model, {}, {}};
  Graph& graph = result.model.graph;
  std::unordered_map<std::string, size_t> wanted;
  for (size_t t = 0; t < tensors.size(); ++t)
    if (!tensors[t].empty()) wanted[tensors[t]] = t;
  const auto inputs = model.graph.free_inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (auto it = wanted.find(inputs[i].name); it != wanted.end()) result.inputs.push_back({it->second, i});
  auto used = used_names(graph);
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size() + tensors.size());
  for (Node& node : graph.nodes) {
    std::vector<Node> observers;
    for (std::string& output : node.outputs) {
      auto it = wanted.find(output);
      if (it == wanted.end()) continue;
      if (const Tensor* value = constant_value(node)) {
        // Behind an Observe it would be no constant to the kernels that read it: they would pack no weights, and sum
        // in another order.
        result.constants.push_back({it->second, *value});
        continue;
      }
      std::string hidden = unused_name(output + "_unobserved", used);
      Node observe{hidden + "_observe", "Observe", kObserveDomain, {hidden}, {output}, {}, {}};
      observe.set_attribute({"tensor", static_cast<int64_t>(it->second)});
      observe.set_attribute({"channels", int64_t{0}});
      observe.set_attribute({"block", int64_t{0}});
      observers.push_back(std::move(observe));
      output = hidden;
    }
    nodes.push_back(std::move(node));
    std::move(observers.begin(), observers.end(), std::back_inserter(nodes));
  }
  graph.nodes = std::move(nodes);
  result.model.opsets.push_back({kObserveDomain, 1});
  return result;
}

}  // namespace seqto::internal
