#include "quantization/lower/writers.h"

namespace seqto::internal {

Model write_clips(Model model, const Encoding& encoding) {
  auto& nodes = model.graph.nodes;
  std::vector<Node> guarded;
  guarded.reserve(nodes.size() + encoding.clips.size());
  auto clip = encoding.clips.begin();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (clip != encoding.clips.end() && clip->node == i) {
      std::string& tensor = nodes[i].inputs[0];
      const std::string bounded = tensor + "_bounded";
      guarded.push_back({bounded, "Clip", "", {tensor, bounded + "_min", bounded + "_max"}, {bounded}, {}, {}});
      model.graph.initializers.push_back({bounded + "_min", float_tensor({}, {clip->lowest})});
      model.graph.initializers.push_back({bounded + "_max", float_tensor({}, {clip->highest})});
      tensor = bounded;
      ++clip;
    }
    guarded.push_back(std::move(nodes[i]));
  }
  nodes = std::move(guarded);
  return model;
}

}  // namespace seqto::internal
