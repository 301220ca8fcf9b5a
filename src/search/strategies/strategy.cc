#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "search/strategies/strategies.h"
#include "seqto/error.h"
#include "seqto/search.h"

namespace seqto {
namespace {

struct StrategyEntry {
  std::string_view name;
  std::unique_ptr<Strategy> (*make)(const SearchSpace&, const StrategyOptions&);
  internal::StrategyTraits traits = {};
};
constexpr std::array kStrategies{
    StrategyEntry{"chain", make_chain, {.adapts = true}},
    StrategyEntry{"incremental", make_incremental, {.searches = false, .reads_threshold = true}},
    StrategyEntry{"dynamic_program", make_dynamic_program},
    StrategyEntry{"sensitivity_list", make_sensitivity_list},
    StrategyEntry{"greedy_revert", make_greedy_revert},
    StrategyEntry{"greedy_bits", make_greedy_bits},
    StrategyEntry{"weighted_error", make_weighted_error},
    StrategyEntry{"weight_quantization_error", make_weight_quantization_error},
    StrategyEntry{"hessian_input_activation", make_hessian_input_activation},
    StrategyEntry{"mean_activation_variance", make_mean_activation_variance},
    StrategyEntry{"mean_activation_magnitude", make_mean_activation_magnitude},
    StrategyEntry{"mixed_layers", make_mixed_layers},
    StrategyEntry{"nsga2", make_nsga2, {.draws = true}},
    StrategyEntry{"random", make_random, {.draws = true}},
};

const StrategyEntry* entry_of(const std::string& name) {
  const auto entry = std::ranges::find(kStrategies, name, &StrategyEntry::name);
  return entry == kStrategies.end() ? nullptr : &*entry;
}

}  // namespace

internal::StrategyTraits internal::traits_of(const std::string& strategy) {
  const StrategyEntry* entry = entry_of(strategy);
  return entry ? entry->traits : StrategyTraits();
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const StrategyEntry& known : kStrategies) names.emplace_back(known.name);
  return names;
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, const SearchSpace& space,
                                        const StrategyOptions& options) {
  if (const StrategyEntry* entry = entry_of(name)) return entry->make(space, options);
  const std::vector<std::string> names = strategy_names();
  throw Error(Code::kUsage, fmt::format("[tune] strategy '{}' found; one of {} expected{}", name,
                                        fmt::join(names, ", "), did_you_mean(name, names)));
}

}  // namespace seqto
