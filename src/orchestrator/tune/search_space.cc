#include "orchestrator/tune/search_space.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "quantization/encode/eligible_layers.h"
#include "seqto/plan.h"

namespace seqto::internal {

namespace {

// Where a target computes nothing in float, all layers that any scheme takes decide as one: one in float, or in another
// type than its neighbour's, costs the file.
std::vector<std::vector<LayerId>> deciding_together(const Model& model, const std::vector<Plan>& everywhere,
                                                    const TuneOptions& o) {
  const std::optional<Target> target = target_of(o);
  if (!target || !target->floats.empty()) return groups(model, o.groups);
  std::set<LayerId> all;
  for (const Plan& plan : everywhere)
    for (const auto& [layer, scheme] : plan.schemes) all.insert(layer);
  return {{all.begin(), all.end()}};
}

}  // namespace

SearchSpace search_space(const Model& model, const QuantizeOptions& quantize, const TuneOptions& o) {
  std::unordered_set<LayerId> weighted;
  for (const Layer& layer : layers(model))
    if (layer.weight_bytes > 0) weighted.insert(layer.id);
  const std::unordered_set<LayerId> left_out(quantize.exclude.begin(), quantize.exclude.end());
  const std::vector<DetailedScheme> schemes = detailed_schemes(o);
  std::vector<Plan> everywhere;
  for (const DetailedScheme& scheme : schemes) everywhere.push_back(eligible_plan(model, quantize, scheme));
  SearchSpace space{.model = &model, .exclusion_order = {}, .scheme = quantized_scheme(o)};
  for (std::vector<LayerId>& members : deciding_together(model, everywhere, o)) {
    SearchGroup group{.layers = {}, .choices = {{}}, .schemes = {DetailedScheme()}};
    for (LayerId& layer : members)
      if (!left_out.contains(layer)) group.layers.push_back(std::move(layer));
    const bool has_weights = std::ranges::any_of(group.layers, [&](const auto& l) { return weighted.contains(l); });
    for (size_t k = 0; k < schemes.size(); ++k) {
      const DetailedScheme& scheme = schemes[k];
      if (scheme.scheme == Scheme::kFloat32) continue;
      if (scheme.scheme == Scheme::kFloat16 && !has_weights && !quantize.float16.compute) continue;
      Plan choice;
      for (const LayerId& layer : group.layers) {
        if (!everywhere[k].schemes.contains(layer)) continue;
        choice.schemes[layer] = scheme.scheme;
        if (!scheme.fields.empty()) choice.options[layer] = scheme.fields;
      }
      if (choice.schemes.empty()) continue;
      group.choices.push_back(std::move(choice));
      group.schemes.push_back(scheme);
    }
    if (group.choices.size() > 1) space.groups.push_back(std::move(group));
  }
  return space;
}

void set_bounds(StrategyOptions& options, const std::vector<Limit>& limits, const SearchSpace& space,
                int64_t float_bytes) {
  for (const Limit& limit : limits) {
    if (limit.figure == "size_bytes") options.max_size_bytes = limit.bound;
    if (limit.figure == "size_ratio") options.max_size_bytes = limit.bound * static_cast<double>(float_bytes);
    if (!space.latency_of) continue;
    if (limit.figure == "latency_ns") options.max_latency_ns = limit.bound;
    if (limit.figure == "latency_ratio") options.max_latency_ns = limit.bound * space.latency_of({});
  }
}

}  // namespace seqto::internal
