#include "quantization/plan/unknown_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <unordered_set>

#include "model/bodies.h"
#include "seqto/error.h"

namespace seqto::internal {

UnknownLayers unknown_layers(const Plan& plan, const Model& model) {
  std::unordered_set<LayerId> names;
  for (const Node& n : model.graph.nodes) names.insert(n.name);
  for_each_body_node(model, [&](const Node& n) { names.insert(n.name); });
  std::vector<LayerId> unknown;
  for (const auto& [layer, scheme] : plan.schemes)
    if (!names.contains(layer)) unknown.push_back(layer);
  if (unknown.empty()) return {};
  constexpr size_t kShown = 3;
  const auto first = std::span(unknown).first(std::min(kShown, unknown.size()));
  const std::string shown = fmt::format("'{}'{}", fmt::join(first, "', '"), unknown.size() > kShown ? " ..." : "");
  if (unknown.size() == plan.schemes.size())
    throw Error(Code::kInvalidInput, fmt::format("[plan] {} found, none of them a layer of the model; a plan for this "
                                                 "model expected; `seqto inspect` lists its layers",
                                                 shown));
  std::string note = fmt::format(
      "{} of the plan's {} layers are none of the model's and have no effect: {}; `seqto inspect` lists those it has",
      unknown.size(), plan.schemes.size(), shown);
  return {std::move(unknown), std::move(note)};
}

}  // namespace seqto::internal
