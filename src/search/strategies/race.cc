#include "search/strategies/race.h"

#include <algorithm>
#include <numeric>

namespace seqto::internal {
namespace {

double sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

bool are_several(size_t seen, const Difficulty& difficulty) {
  constexpr size_t kMany = 8;
  constexpr double kSeveral = 3;
  if (seen >= kMany) return true;
  double all = 0, squares = 0;
  for (double d : std::span(difficulty).first(std::min(seen, difficulty.size()))) {
    all += d;
    squares += d * d;
  }
  return all * all >= kSeveral * squares;
}

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
  const double least = seen + 0.5 * (extrapolated(losses, difficulty) - seen);
  return std::ranges::any_of(rivals, [&](const Rival& rival) {
    return rival.costs.size <= costs.size && rival.costs.latency <= costs.latency && rival.loss < least;
  });
}

bool mostly_seen(std::span<const double> losses, const Difficulty& difficulty) {
  return losses.size() <= difficulty.size() && 3 * sum(std::span(difficulty).first(losses.size())) >= sum(difficulty);
}

}  // namespace seqto::internal
