#include "orchestrator/search_groups.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace seqto::internal {

std::vector<SearchGroup> search_groups(const Model& model, const std::vector<DetailedScheme>& schemes,
                                       const std::vector<LayerId>& excluded, const GroupOptions& options) {
  std::unordered_map<LayerId, std::vector<Scheme>> possible;
  for (Layer& layer : layers(model)) possible[layer.id] = std::move(layer.schemes);
  const std::unordered_set<LayerId> left_out(excluded.begin(), excluded.end());
  std::vector<SearchGroup> result;
  for (std::vector<LayerId>& members : groups(model, options)) {
    SearchGroup group{.layers = {}, .choices = {{}}, .schemes = {DetailedScheme()}};
    for (LayerId& layer : members)
      if (!left_out.contains(layer)) group.layers.push_back(std::move(layer));
    for (const DetailedScheme& scheme : schemes) {
      if (scheme.scheme == Scheme::kFloat32) continue;
      Plan choice;
      for (const LayerId& layer : group.layers) {
        if (const auto& all = possible[layer]; std::ranges::find(all, scheme.scheme) == all.end()) continue;
        choice.schemes[layer] = scheme.scheme;
        if (!scheme.fields.empty()) choice.options[layer] = scheme.fields;
      }
      if (choice.schemes.empty()) continue;
      group.choices.push_back(std::move(choice));
      group.schemes.push_back(scheme);
    }
    if (group.choices.size() > 1) result.push_back(std::move(group));
  }
  return result;
}

}  // namespace seqto::internal
