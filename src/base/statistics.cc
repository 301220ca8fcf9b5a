#include "base/statistics.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "base/random.h"
#include "seqto/statistics.h"

namespace seqto {

double quantile(std::vector<double> values, double q) {
  assert(!values.empty() && q >= 0 && q <= 1);
  std::sort(values.begin(), values.end());
  double position = q * static_cast<double>(values.size() - 1);
  size_t below = static_cast<size_t>(position);
  size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (position - static_cast<double>(below));
}

namespace {

// The indices of each block, in the order in which blocks begin.
std::vector<std::vector<size_t>> members_of(const Blocks& blocks, size_t size) {
  std::vector<std::vector<size_t>> members;
  std::unordered_map<int64_t, size_t> numbers;
  for (size_t i = 0; i < size; ++i) {
    const bool alone = blocks.size() != size;
    const size_t block = alone ? i : numbers.emplace(blocks[i], members.size()).first->second;
    if (block == members.size()) members.emplace_back();
    members[block].push_back(i);
  }
  return members;
}

}  // namespace

void for_each_resample(size_t size, int resamples, const std::function<void(std::span<const double>)>& visit,
                       const Blocks& blocks) {
  const std::vector<std::vector<size_t>> members = members_of(blocks, size);
  std::mt19937_64 engine(members.size());
  std::vector<double> counts(size);
  for (int resample = 0; resample < resamples; ++resample) {
    std::ranges::fill(counts, 0.0);
    for (size_t drawn = 0; drawn < members.size(); ++drawn)
      for (const size_t i : members[internal::below(members.size(), engine)]) ++counts[i];
    visit(counts);
  }
}

Blocks blocks_of(std::span<const Origin> origins) {
  constexpr size_t kFewest = 20;  // a bootstrap of fewer blocks is too narrow
  const size_t most = (origins.size() + kFewest - 1) / kFewest;
  std::vector<size_t> order(origins.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return std::pair(origins[i].source, origins[i].position); });
  Blocks blocks(origins.size());
  int64_t block = -1;
  size_t held = 0;  // by the block
  for (size_t k = 0; k < order.size(); ++k) {
    const int64_t source = origins[order[k]].source;
    const bool goes_on = k > 0 && source >= 0 && source == origins[order[k - 1]].source && held < most;
    held = goes_on ? held + 1 : 1;
    blocks[order[k]] = block += goes_on ? 0 : 1;
  }
  return block + 1 == std::ssize(blocks) ? Blocks() : blocks;
}

Interval percentile_interval(std::span<const double> replicates) {
  const std::vector<double> values(replicates.begin(), replicates.end());
  return {quantile(values, 0.025), quantile(values, 0.975)};
}

std::vector<std::vector<double>> resampled_means(std::span<const std::vector<double>> columns, const Blocks& blocks) {
  std::vector<std::vector<double>> means(columns.size());
  if (columns.empty() || columns[0].empty()) return means;
  const size_t size = columns[0].size();
  constexpr int kResamples = 2000;
  const auto visit = [&](std::span<const double> counts) {
    const double drawn = std::accumulate(counts.begin(), counts.end(), 0.0);
    for (size_t c = 0; c < columns.size(); ++c) {
      assert(columns[c].size() == size);
      means[c].push_back(std::inner_product(counts.begin(), counts.end(), columns[c].begin(), 0.0) / drawn);
    }
  };
  for_each_resample(size, kResamples, visit, blocks);
  return means;
}

std::vector<Interval> bootstrap_means(std::span<const std::vector<double>> columns, const Blocks& blocks) {
  std::vector<Interval> intervals;
  for (const std::vector<double>& means : resampled_means(columns, blocks))
    intervals.push_back(means.empty() ? Interval{} : percentile_interval(means));
  return intervals;
}

Interval bootstrap_mean(std::span<const double> values, const Blocks& blocks) {
  const std::vector<double> column(values.begin(), values.end());
  return bootstrap_means(std::span(&column, 1), blocks)[0];
}

namespace {

// The probability of at most `count` of so many, each with probability `share`.
double binomial_up_to(int64_t count, int64_t samples, double share) {
  const auto n = static_cast<double>(samples);
  double sum = 0;
  for (int64_t i = 0; i <= count; ++i) {
    const auto k = static_cast<double>(i);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(share) +
                    (n - k) * std::log1p(-share));
  }
  return sum;
}

}  // namespace

double most_of(int64_t count, int64_t samples) {
  if (count >= samples) return 1;
  if (count == 0) return 1 - std::pow(0.025, 1 / static_cast<double>(samples));
  double low = static_cast<double>(count) / static_cast<double>(samples), high = 1;
  constexpr int kHalvings = 50;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (binomial_up_to(count, samples, middle) > 0.025 ? low : high) = middle;
  }
  return low;
}

double expansion(int64_t values) {
  constexpr std::array kStudent{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262};  // 97.5 %, 1 to 9
  const double freedom = std::max(1.0, static_cast<double>(values) - 1);
  const double student = freedom <= kStudent.size() ? kStudent[static_cast<size_t>(freedom) - 1] : 1.96 + 2.4 / freedom;
  return std::sqrt((freedom + 1) / freedom) * student / 1.96;
}

double mcnemar(int64_t first, int64_t second) {
  return std::min(1.0, 2 * binomial_up_to(std::min(first, second), first + second, 0.5));
}

}  // namespace seqto
