#include "quantization/read/random_nodes.h"

#include <fmt/format.h>

#include "model/op_traits.h"

namespace seqto::internal {

std::vector<std::string> random_nodes(const Model& model) {
  const Node* first = nullptr;
  int count = 0;
  for (const Node& node : model.graph.nodes)
    if (has(node, kRandom) && !node.attribute("seed") && count++ == 0) first = &node;
  if (!first) return {};
  return {
      fmt::format("{} '{}'{} draws random numbers, other ones in each model: losses hold that difference too; "
                  "export the noise as an input, or give the node a seed",
                  first->op_type, first->name, count > 1 ? fmt::format(" (of {} such nodes)", count) : "")};
}

}  // namespace seqto::internal
