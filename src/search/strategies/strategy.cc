#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "metrics/loss_fields.h"
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

// The entry of that name, or Error{kUsage} listing the names.
template <class Table>
const auto& look_up(const Table& table, const std::string& name, std::string_view what) {
  const auto entry = std::ranges::find(table, name, [](const auto& candidate) { return candidate.name; });
  if (entry != table.end()) return *entry;
  std::vector<std::string> names;
  for (const auto& candidate : table) names.emplace_back(candidate.name);
  throw Error(Code::kUsage, fmt::format("[tune] {} '{}' found; one of {} expected{}", what, name,
                                        fmt::join(names, ", "), did_you_mean(name, names)));
}

}  // namespace

std::unique_ptr<Strategy> make_strategy(const std::string& name, const SearchSpace& space,
                                        const StrategyOptions& options) {
  const StrategyEntry& entry = look_up(kStrategies, name, "strategy");
  look_up(kLossFields, options.threshold_loss, "threshold loss");
  return entry.make(space, options);
}

}  // namespace seqto
