#include "quantization/read/computed_weights.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "quantization/plan/weight_sites.h"

namespace seqto::internal {

int layers_of_computed_weights(const Model& model) {
  const GraphView view(model);
  const auto constant = [&](const std::string& name) { return view.constant(name); };
  const TransposedWeights turned = transposed_weights(model, constant);
  std::unordered_set<std::string> computed;
  const auto is_known = [&](const std::string& name) { return constant(name) || computed.contains(name); };
  int layers = 0;
  for (const Node& node : model.graph.nodes) {
    const bool known = !node.inputs.empty() && std::ranges::all_of(node.inputs, is_known);
    if (known) computed.insert(node.outputs.begin(), node.outputs.end());
    else if (has(node, kProduct) && node.inputs.size() > 1 && !turned.contains(node.inputs[1]))
      layers += computed.contains(node.inputs[1]);
  }
  return layers;
}

}  // namespace seqto::internal
