#include "model/known_shapes.h"

namespace seqto::internal {

std::unordered_map<std::string, const std::vector<Dimension>*> known_shapes(const Graph& graph) {
  std::unordered_map<std::string, const std::vector<Dimension>*> shapes;
  for (const auto* infos : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (const ValueInfo& info : *infos)
      if (info.shape) shapes[info.name] = &*info.shape;
  return shapes;
}

}  // namespace seqto::internal
