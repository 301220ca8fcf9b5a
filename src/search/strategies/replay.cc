#include "search/strategies/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "search/strategies/finalists.h"
#include "seqto/error.h"

namespace seqto::internal {

Replay::Replay(const SearchSpace& space, const StrategyOptions& options)
    : space_(space), options_(options), assignments_(space_), archive_(space_, options_) {}

std::vector<Proposal> Replay::next(const Study& study, bool wrap_up) {
  if (space_.groups.empty()) return {};
  archive_.update(study);
  if (!wrap_up) {
    used_ = 0;
    asked_.clear();
    try {
      search();
    } catch (const Pending& pending) {
      std::vector<Proposal> proposals;
      for (const Assignment& plan : pending.plans)
        proposals.push_back({assignments_.plan(plan), {}, Part::kSearch, "search"});
      if (races()) {
        // A few at a time, so that later ones race against what the earlier ones came to.
        proposals.resize(std::min(proposals.size(), static_cast<size_t>(options_.tuning.batch)));
        archive_.race(proposals);
      }
      return proposals;
    }
  }
  return finalists_to_measure(archive_, assignments_, options_.front);
}

void Replay::require_limit(size_t least) const {
  if (options_.evaluations <= 0 || options_.evaluations >= static_cast<int64_t>(least)) return;
  throw Error(Code::kUsage, fmt::format("[tune] --search-evaluations {} found; {} or more expected, with which the "
                                        "strategy begins on {} groups of layers; give so many, or --strategy chain",
                                        options_.evaluations, least, assignments_.groups()));
}

std::vector<double> Replay::losses(std::span<const Assignment> plans) {
  std::vector<double> result;
  Pending pending;
  for (const Assignment& plan : plans) {
    const bool is_new = asked_.insert(plan).second;
    used_ += is_new;
    const Entry* entry = archive_.find(plan);
    // Who asks for one without a loss gets no further, so it is new but where it comes twice here.
    if (entry && entry->search) result.push_back(*entry->search);
    else if (is_new) pending.plans.push_back(plan);
  }
  if (!pending.plans.empty()) throw pending;
  return result;
}

double Replay::cost(const Assignment& plan) {
  const Plan whole = assignments_.plan(plan);
  return archive_.by_size() ? static_cast<double>(space_.size_of(whole)) : space_.latency_of(whole);
}

std::vector<ChoiceTable> Replay::mixed_costs() {
  std::vector<ChoiceTable> costs;
  for (double share : archive_.mixtures()) costs.push_back(assignments_.costs(share));
  return costs;
}

ChoiceTable Replay::one_in() {
  std::vector<Assignment> plans;
  for (size_t g = 0; g < assignments_.groups(); ++g)
    for (int c = 1; c < static_cast<int>(assignments_.choices(g)); ++c)
      (plans.emplace_back(assignments_.all_float()))[g] = c;
  require_limit(plans.size() + 1);  // and a plan made of them
  const std::vector<double> all = losses(plans);
  ChoiceTable table;
  size_t next = 0;
  for (size_t g = 0; g < assignments_.groups(); ++g) {
    std::vector<double>& row = table.emplace_back(assignments_.choices(g), 0.0);
    for (size_t c = 1; c < row.size(); ++c) row[c] = all[next++];
  }
  return table;
}

void Replay::walk(const std::vector<Assignment>& path) {
  const int64_t least = options_.evaluations > 0 ? 0 : 2;  // what the caller limits has no room for both ends
  const auto count = std::min<size_t>(path.size(), static_cast<size_t>(std::max(least, left())));
  std::vector<Assignment> chosen;
  for (size_t i = 0; i < count; ++i) chosen.push_back(path[count == 1 ? 0 : i * (path.size() - 1) / (count - 1)]);
  losses(chosen);
}

int64_t Replay::budget() const {
  return options_.evaluations > 0 ? options_.evaluations : 5 * static_cast<int64_t>(assignments_.groups());
}

}  // namespace seqto::internal
