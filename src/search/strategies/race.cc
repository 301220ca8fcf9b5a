#include "search/strategies/race.h"

#include <algorithm>
#include <numeric>

namespace seqto::internal {
namespace {

double sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

bool are_several(size_t seen, const Difficulty& difficulty, const SearchTuning& tuning) {
  if (static_cast<double>(seen) >= tuning.race_samples) return true;
  double all = 0, squares = 0;
  for (double d : std::span(difficulty).first(std::min(seen, difficulty.size()))) {
    all += d;
    squares += d * d;
  }
  return all * all >= tuning.race_several * squares;
}

double extrapolated(std::span<const double> losses, const Difficulty& difficulty) {
  const double mean = sum(losses) / static_cast<double>(losses.size());
  if (losses.size() >= difficulty.size()) return mean;
  const double seen = sum(std::span(difficulty).first(losses.size()));
  if (seen <= 0) return mean;
  return sum(losses) / seen * sum(difficulty) / static_cast<double>(difficulty.size());
}

bool beaten(std::span<const double> losses, const Costs& costs, const Field& field) {
  const double seen = sum(losses) / static_cast<double>(field.difficulty.size());
  const double least = seen + field.tuning.race_rest * (extrapolated(losses, field.difficulty) - seen);
  return std::ranges::any_of(field.rivals, [&](const Rival& rival) {
    return rival.costs.size <= costs.size && rival.costs.latency <= costs.latency && rival.loss < least;
  });
}

bool mostly_seen(std::span<const double> losses, const Difficulty& difficulty, const SearchTuning& tuning) {
  return losses.size() <= difficulty.size() &&
         sum(std::span(difficulty).first(losses.size())) >= tuning.race_seen * sum(difficulty);
}

}  // namespace seqto::internal
