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
};
constexpr std::array kStrategies{
    StrategyEntry{"chain", make_chain},
    StrategyEntry{"incremental", make_incremental},
    StrategyEntry{"dynamic_program", make_dynamic_program},
    StrategyEntry{"sensitivity_list", make_sensitivity_list},
    StrategyEntry{"greedy_revert", make_greedy_revert},
    StrategyEntry{"nsga2", make_nsga2},
    StrategyEntry{"random", make_random},
};

}  // namespace

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const StrategyEntry& known : kStrategies) names.emplace_back(known.name);
  return names;
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, const SearchSpace& space,
                                        const StrategyOptions& options) {
  const auto entry = std::ranges::find(kStrategies, name, &StrategyEntry::name);
  if (entry != kStrategies.end()) return entry->make(space, options);
  const std::vector<std::string> names = strategy_names();
  throw Error(Code::kUsage, fmt::format("[tune] strategy '{}' found; one of {} expected{}", name,
                                        fmt::join(names, ", "), did_you_mean(name, names)));
}

}  // namespace seqto
