#include "quantization/encode/encode_sums.h"

#include <algorithm>

#include "model/graph_view.h"
#include "model/op_traits.h"

namespace seqto::internal {
namespace {

// Also one that is written out: what deviates from the mean begins it.
bool is_normalized(const std::string& tensor, const Edges& edges) {
  const auto& readers = edges.readers(tensor);
  const auto reads = [&](const char* op_type) {
    return std::ranges::any_of(readers, [&](const Node* n) { return n->op_type == op_type && n->inputs[0] == tensor; });
  };
  if (edges.uses(tensor) == 1) return reads("LayerNormalization");
  return edges.uses(tensor) == 2 && reads("ReduceMean") && reads("Sub");
}

bool is_product_of_codes(const std::string& tensor, const Edges& edges) {
  const Node* product = edges.producer(tensor);
  return product && is_matmul(*product) && std::ranges::all_of(product->inputs, [&](const std::string& name) {
           const Node* source = edges.producer(name);
           return source && is_dequantize(*source);
         });
}

}  // namespace

Encoding encode_sums(const Model& model) {
  Encoding result;
  const GraphView view(model);
  for (const Node& n : model.graph.nodes) {
    if (!is_add(n) || !n.domain.empty()) continue;
    const auto type = view.types.find(n.outputs[0]);
    if (type == view.types.end() || type->second != DataType::kFloat) continue;
    const bool computed = std::ranges::none_of(n.inputs, [&](const auto& name) { return view.constant(name); });
    if ((computed && is_normalized(n.outputs[0], view.edges)) ||
        std::ranges::any_of(n.inputs, [&](const auto& name) { return is_product_of_codes(name, view.edges); }))
      result.sums.push_back(n.name);
  }
  return result;
}

}  // namespace seqto::internal
