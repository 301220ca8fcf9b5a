#include "base/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>

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

Interval bootstrap_mean(std::span<const double> values) {
  if (values.empty()) return {};
  constexpr int kResamples = 2000;
  std::mt19937_64 engine(values.size());
  std::vector<double> means(kResamples);
  for (double& mean : means) {
    for (size_t i = 0; i < values.size(); ++i) mean += values[internal::below(values.size(), engine)];
    mean /= static_cast<double>(values.size());
  }
  return {quantile(means, 0.025), quantile(means, 0.975)};
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
