#include "orchestrator/tune/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orchestrator/study/notes.h"
#include "seqto/error.h"

namespace seqto::internal {

void note_placement(std::span<const Place> places, const std::function<const Model&()>& full,
                    std::span<const Tensor> inputs, Study& study) {
  std::map<std::string, std::vector<NodePlacement>> by_device;
  for (const Place& place : places) {
    if (place.device == "cpu") continue;
    auto nodes = place.runner->placement(full(), inputs);
    if (nodes.empty()) continue;  // the runtime does not tell
    const bool used =
        std::ranges::any_of(nodes, [](const NodePlacement& n) { return n.provider != "CPUExecutionProvider"; });
    if (!used)
      throw Error(Code::kUnavailable,
                  fmt::format("[tune] {} leaves all {} nodes of the fully quantized model to the CPU; a device that "
                              "runs some was expected; try other schemes, or --device cpu",
                              place.device, nodes.size()));
    by_device[place.device] = std::move(nodes);
  }
  if (!by_device.empty()) study.note("placement", placements_to_json(by_device));
}

}  // namespace seqto::internal
