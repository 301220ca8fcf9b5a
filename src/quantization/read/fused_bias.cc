#include "quantization/read/fused_bias.h"

#include "model/known_shapes.h"
#include "model/op_traits.h"

namespace seqto::internal {
namespace {

bool fits_gemm(const Node& product, const std::string& added, const PairGraph& pairs, bool is_matrix) {
  const auto *left = pairs.dims(product.inputs[0]), *right = pairs.dims(product.inputs[1]), *bias = pairs.dims(added);
  if (!right || !bias || right->size() != 2) return false;
  const int64_t outputs = (*right)[1];
  // Of other ranks it makes matrices where it knows all sizes.
  if (bias->size() == 1) return (*bias)[0] == outputs && (is_matrix || left);
  if (bias->size() != 2 || !is_matrix) return false;
  if ((*bias)[0] == 1 && (*bias)[1] == outputs) return true;
  return left && (*bias)[0] == (*left)[0] && ((*bias)[1] == 1 || (*bias)[1] == outputs);
}

}  // namespace

std::unordered_map<const Node*, const Node*> fused_biases(const std::vector<Node>& nodes, const Edges& edges,
                                                          const PairGraph& pairs, const Graph& file) {
  std::unordered_map<const Node*, const Node*> found;
  const auto shapes = known_shapes(file);
  for (const Node& n : nodes) {
    const Node* sum = is_matmul(n) && n.domain.empty() ? edges.only_reader(n.outputs[0]) : nullptr;
    if (!sum || !is_add(*sum) || !sum->domain.empty() || found.contains(sum)) continue;
    const auto shape = shapes.find(n.outputs[0]);
    const bool is_matrix = shape != shapes.end() && shape->second->size() == 2;
    if (fits_gemm(n, sum->inputs[sum->inputs[0] == n.outputs[0] ? 1 : 0], pairs, is_matrix))
      found[&n] = sum, found[sum] = &n;
  }
  return found;
}

}  // namespace seqto::internal
