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

bool beaten(std::span<const double> losses, double size_bytes, const Race& race) {
  const double seen = sum(losses) / static_cast<double>(race.difficulty.size());
  return std::ranges::any_of(race.rivals, [&](const Race::Rival& rival) {
    return rival.size_bytes <= size_bytes && rival.latency_ns <= race.latency_ns && rival.loss < seen;
  });
}

bool mostly_seen(std::span<const double> losses, const Difficulty& difficulty, double share) {
  return losses.size() <= difficulty.size() &&
         sum(std::span(difficulty).first(losses.size())) >= share * sum(difficulty);
}

}  // namespace seqto::internal

namespace seqto {

bool Race::is_over(std::span<const Losses> each, int64_t size_bytes) const {
  if (static_cast<double>(each.size()) < least_samples) return false;
  std::vector<double> losses;
  Measurement measurement;
  for (const Losses& one : each) {
    measurement.losses = one;
    losses.push_back(objective(measurement, loss));
  }
  return internal::mostly_seen(losses, difficulty, share_seen) ||
         internal::beaten(losses, static_cast<double>(size_bytes), *this);
}

}  // namespace seqto
