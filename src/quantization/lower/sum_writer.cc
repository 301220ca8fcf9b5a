#include <unordered_set>

#include "quantization/lower/writers.h"

namespace seqto::internal {

Model write_sums(Model model, const Encoding& encoding) {
  const std::unordered_set<LayerId> sums(encoding.sums.begin(), encoding.sums.end());
  for (Node& node : model.graph.nodes)
    if (sums.contains(node.name)) node.op_type = "Sum";
  return model;
}

}  // namespace seqto::internal
