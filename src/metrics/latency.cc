#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "seqto/metrics.h"

namespace seqto {

Latency summarize_latency(std::vector<int64_t> sample_ns) {
  if (sample_ns.empty()) return {};
  const std::vector<double> values(sample_ns.begin(), sample_ns.end());
  auto at = [&](double q) { return static_cast<int64_t>(std::llround(quantile(values, q))); };
  return {.median_ns = at(0.5), .p10_ns = at(0.1), .p90_ns = at(0.9)};
}

}  // namespace seqto
