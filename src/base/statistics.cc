#include "base/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

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

void for_each_resample(size_t size, int resamples, const std::function<void(std::span<const double>)>& visit) {
  std::mt19937_64 engine(size);
  std::vector<double> counts(size);
  for (int resample = 0; resample < resamples; ++resample) {
    std::ranges::fill(counts, 0.0);
    for (size_t i = 0; i < size; ++i) ++counts[internal::below(size, engine)];
    visit(counts);
  }
}

Interval percentile_interval(std::span<const double> replicates) {
  const std::vector<double> values(replicates.begin(), replicates.end());
  return {quantile(values, 0.025), quantile(values, 0.975)};
}

std::vector<std::vector<double>> resampled_means(std::span<const std::vector<double>> columns) {
  std::vector<std::vector<double>> means(columns.size());
  if (columns.empty() || columns[0].empty()) return means;
  const size_t size = columns[0].size();
  constexpr int kResamples = 2000;
  for_each_resample(size, kResamples, [&](std::span<const double> counts) {
    for (size_t c = 0; c < columns.size(); ++c) {
      assert(columns[c].size() == size);
      const double sum = std::inner_product(counts.begin(), counts.end(), columns[c].begin(), 0.0);
      means[c].push_back(sum / static_cast<double>(size));
    }
  });
  return means;
}

std::vector<Interval> bootstrap_means(std::span<const std::vector<double>> columns) {
  std::vector<Interval> intervals;
  for (const std::vector<double>& means : resampled_means(columns))
    intervals.push_back(means.empty() ? Interval{} : percentile_interval(means));
  return intervals;
}

Interval bootstrap_mean(std::span<const double> values) {
  const std::vector<double> column(values.begin(), values.end());
  return bootstrap_means(std::span(&column, 1))[0];
}

double mcnemar(int64_t first, int64_t second) {
  const int64_t n = first + second;
  double tail = 0;  // of the binomial distribution with p = 1/2
  for (int64_t k = 0; k <= std::min(first, second); ++k)
    tail += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) -
                     static_cast<double>(n) * std::log(2.0));
  return std::min(1.0, 2 * tail);
}

}  // namespace seqto
