#include "quantization/plan/refused_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <unordered_set>
#include <utility>

namespace seqto::internal {
namespace {

constexpr size_t kMost = 10;  // each takes some ten loads

}  // namespace

RefusedLayers find_refused(const Model& model, const std::function<Model(const std::vector<LayerId>&)>& without,
                           const Refusal& refusal, std::vector<LayerId> floats) {
  const std::unordered_set<LayerId> excluded(floats.begin(), floats.end());
  std::vector<LayerId> layers;
  for (const Node& node : model.graph.nodes)
    if (!excluded.contains(node.name)) layers.push_back(node.name);
  RefusedLayers result;
  std::string why;
  // With the first `count` layers on codes.
  const auto is_refused = [&](size_t count) {
    std::vector<LayerId> left_out = floats;
    left_out.insert(left_out.end(), layers.begin() + static_cast<std::ptrdiff_t>(count), layers.end());
    result.model = without(left_out);
    const std::string said = refusal(result.model);
    if (!said.empty()) why = said;
    return !said.empty();
  };
  std::vector<std::string> said;
  while (is_refused(layers.size())) {
    if (said.empty())
      if (const std::string in_float = refusal(model); !in_float.empty())
        return {
            {}, std::move(result.model), fmt::format("the device refuses the model in float too: {}", in_float), false};
    if (said.size() == kMost) {
      result.taken = false;
      break;
    }
    size_t taken = 0, beyond = layers.size();
    while (beyond - taken > 1) {
      const size_t middle = (taken + beyond) / 2;
      (is_refused(middle) ? beyond : taken) = middle;
    }
    result.layers.push_back(layers[taken]);
    said.push_back(fmt::format("'{}' ({})", layers[taken], why));
    floats.push_back(layers[taken]);
    layers.erase(layers.begin() + static_cast<std::ptrdiff_t>(taken));
  }
  if (!said.empty())
    result.said = fmt::format("the device refuses these on codes, so they stay float: {}", fmt::join(said, "; "));
  if (!result.taken)
    result.said += fmt::format("{}the device refuses the model all the same: {}", said.empty() ? "" : "; ", why);
  return result;
}

}  // namespace seqto::internal
