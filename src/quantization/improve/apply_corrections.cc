// Which corrections a plan's layers want.
#include "seqto/improve.h"

#include <utility>

namespace seqto {
namespace {

// The layers that do not want it are taken out.
template <class T>
void keep_wanted(std::map<LayerId, T>& found, const Plan& plan, std::optional<bool> LayerOptions::* field,
                 bool otherwise) {
  std::erase_if(found, [&](const auto& layer) {
    auto it = plan.options.find(layer.first);
    return !(it == plan.options.end() ? otherwise : (it->second.*field).value_or(otherwise));
  });
}

}  // namespace

Corrections wanted(Corrections found, const Plan& plan, const ImproveOptions& otherwise) {
  keep_wanted(found.rounding, plan, &LayerOptions::learned_rounding, otherwise.learned_rounding);
  keep_wanted(found.shifts, plan, &LayerOptions::bias_correction, otherwise.bias_correction != BiasCorrection::kNone);
  return found;
}

namespace {

// A plan that with_fields() made asks for what was found under the scheme without one or both of these fields.
const Corrections* found_for(const DetailedScheme& asked, const SchemeCorrections& corrections) {
  const bool learned = asked.fields.learned_rounding == true, corrected = asked.fields.bias_correction == true;
  for (auto [without_rounding, without_bias] :
       {std::pair{false, false}, {learned, false}, {false, corrected}, {learned, corrected}}) {
    DetailedScheme scheme = asked;
    if (without_rounding) scheme.fields.learned_rounding.reset();
    if (without_bias) scheme.fields.bias_correction.reset();
    if (auto found = corrections.find(scheme); found != corrections.end()) return &found->second;
  }
  return nullptr;
}

}  // namespace

Corrections wanted(const SchemeCorrections& corrections, const Plan& plan) {
  Corrections all;
  for (const auto& [layer, scheme] : plan.schemes) {
    const Corrections* found = found_for(detailed_scheme(plan, layer), corrections);
    if (!found) continue;
    const auto& [scales, rounding, shifts] = *found;
    if (auto it = scales.find(layer); it != scales.end()) all.scales.insert(*it);
    if (auto it = rounding.find(layer); it != rounding.end()) all.rounding.insert(*it);
    if (auto it = shifts.find(layer); it != shifts.end()) all.shifts.insert(*it);
  }
  return wanted(std::move(all), plan, {.learned_rounding = true, .bias_correction = BiasCorrection::kFast});
}

Plan with_fields(const SchemeCorrections& corrections, Plan plan) {
  const Corrections all = wanted(corrections, plan);
  for (const auto& [layer, rounded] : all.rounding) plan.options[layer].learned_rounding = true;
  for (const auto& [layer, shifts] : all.shifts) plan.options[layer].bias_correction = true;
  return plan;
}

}  // namespace seqto
