#include "search/strategies/race.h"

#include <algorithm>
#include <numeric>

namespace seqto::internal {
namespace {

double sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

double extrapolated(std::span<const double> losses, const Difficulty& difficulty) {
  const double mean = sum(losses) / static_cast<double>(losses.size());
  if (losses.size() >= difficulty.size()) return mean;
  const double seen = sum(std::span(difficulty).first(losses.size()));
  if (seen <= 0) return mean;
  return sum(losses) / seen * sum(difficulty) / static_cast<double>(difficulty.size());
}

bool beaten(std::span<const double> losses, const Costs& costs, std::span<const Rival> rivals,
            const Difficulty& difficulty) {
  const double seen = sum(losses) / static_cast<double>(difficulty.size());
  return std::ranges::any_of(rivals, [&](const Rival& rival) {
    return rival.costs.size <= costs.size && rival.costs.latency <= costs.latency && rival.loss < seen;
  });
}

bool mostly_seen(std::span<const double> losses, const Difficulty& difficulty, double share) {
  return losses.size() <= difficulty.size() &&
         sum(std::span(difficulty).first(losses.size())) >= share * sum(difficulty);
}

}  // namespace seqto::internal
