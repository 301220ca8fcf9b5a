// Operators on codes, in QOperator form and in that of dynamic quantization.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "model/bodies.h"
#include "model/sort_nodes.h"
#include "quantization/lower/writers.h"

namespace seqto::internal {
namespace {

// By name.
std::unordered_map<std::string, Tensor> new_initializers(const Encoding& encoding) {
  std::unordered_map<std::string, Tensor> result;
  for (const Initializer& i : encoding.graph->new_initializers) result[i.name] = i.tensor;
  for (const EncodedTensor& t : encoding.tensors) {
    if (t.codes) result[t.names.codes] = *t.codes;
    result[t.names.scale] = scale_tensor(t.params.scale, t.param_dims);
    result[t.names.zero_point] = zero_point_tensor(t.params, t.param_dims);
  }
  for (const EncodedBias& b : encoding.biases) {
    const int64_t scales = std::ssize(b.scale);
    const auto zero_dims = scales > 1 ? std::vector<int64_t>{scales} : std::vector<int64_t>{};
    result[b.names.codes] = b.values;
    result[b.names.scale] = scale_tensor(b.scale, {scales});
    result[b.names.zero_point] =
        Tensor::from(DataType::kInt32, zero_dims, std::vector<int32_t>(static_cast<size_t>(scales), 0));
  }
  return result;
}

// A constant that is dequantized somewhere comes from there everywhere: a name has one source.
void drop_rewritten_initializers(Graph& graph) {
  std::unordered_set<std::string> written;
  for (const Node& n : graph.nodes) written.insert(n.outputs.begin(), n.outputs.end());
  std::erase_if(graph.initializers, [&](const Initializer& i) { return written.contains(i.name); });
  std::erase_if(graph.inputs, [&](const ValueInfo& v) { return written.contains(v.name); });
}

}  // namespace

Graph write_operator_graph(Graph graph, const Encoding& encoding) {
  auto made = new_initializers(encoding);
  graph.nodes = encoding.graph->nodes;
  for (const std::string& name : encoding.graph->order)
    if (auto it = made.find(name); it != made.end()) graph.initializers.push_back({name, std::move(it->second)});
  drop_rewritten_initializers(graph);
  drop_unused_initializers(graph);
  sort_nodes(graph);
  return graph;
}

Model write_operators(Model model, const Encoding& encoding) {
  model.graph = write_operator_graph(std::move(model.graph), encoding);
  auto imports = [&](const std::string& domain) {
    return std::any_of(model.opsets.begin(), model.opsets.end(), [&](const Opset& o) { return o.domain == domain; });
  };
  bool contrib = false;
  auto look = [&](const Node& n) { contrib |= n.domain == "com.microsoft"; };
  std::for_each(model.graph.nodes.begin(), model.graph.nodes.end(), look);
  for_each_body_node(model, look);
  if (contrib && !imports("com.microsoft")) model.opsets.push_back({"com.microsoft", 1});
  model.producer_name = "seqto";
  model.producer_version = SEQTO_VERSION;
  return model;
}

}  // namespace seqto::internal
