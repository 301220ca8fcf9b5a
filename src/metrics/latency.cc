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

std::string_view to_string(Speed speed) {
  return speed == Speed::kFaster ? "faster" : speed == Speed::kSlower ? "slower" : "same";
}

double ratio_of(const Latency& latency, const Latency& of_float) {
  if (latency.over_float) return latency.over_float->value;
  if (latency.median_ns <= 0 || of_float.median_ns <= 0) return 1;
  return static_cast<double>(latency.median_ns) / static_cast<double>(of_float.median_ns);
}

Speed speed_of(const Latency& latency, const Latency& of_float) {
  const double speed = 1 / ratio_of(latency, of_float);
  const auto& paired = latency.over_float;
  if (speed <= 1 - kSame && (paired ? paired->interval.low > 1 : latency.p10_ns > of_float.p90_ns))
    return Speed::kSlower;
  if (speed >= 1 + kSame && (paired ? paired->interval.high < 1 : latency.p90_ns < of_float.p10_ns))
    return Speed::kFaster;
  return Speed::kSame;
}

}  // namespace seqto
