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
  if (speed > 1 - kSame && speed < 1 + kSame) return Speed::kSame;
  const bool slower = speed < 1;
  bool sure = slower ? latency.p10_ns > of_float.p90_ns : latency.p90_ns < of_float.p10_ns;
  if (const auto& paired = latency.over_float) {
    sure = slower ? paired->interval.low > 1 : paired->interval.high < 1;
    // Other work on the machine lengthens the fast runs least: they have to agree.
    if (latency.p10_ns > 0 && of_float.p10_ns > 0) {
      const double fast = static_cast<double>(latency.p10_ns) / static_cast<double>(of_float.p10_ns);
      sure &= slower ? fast >= 1 + kSame : fast <= 1 - kSame;
    }
  }
  return !sure ? Speed::kSame : slower ? Speed::kSlower : Speed::kFaster;
}

}  // namespace seqto
