#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "metrics/loss/loss_fields.h"
#include "seqto/error.h"
#include "seqto/search.h"

namespace seqto {

double objective(const Measurement& measurement, const std::string& name) {
  if (name == "size") return static_cast<double>(measurement.size_bytes);
  if (name == "latency") return static_cast<double>(measurement.latency.median_ns);
  if (name == "decode_latency") {
    const auto& step = measurement.decode_latency;
    return step ? static_cast<double>(step->median_ns) : std::numeric_limits<double>::quiet_NaN();
  }
  for (const LossField& field : kLossFields) {
    if (field.name == name) return measurement.losses.*field.value;
  }
  if (const auto metric = measurement.metrics.find(name); metric != measurement.metrics.end()) {
    return measurement.lower_is_better.contains(name) ? metric->second : 1 - metric->second;
  }
  std::vector<std::string> names = cost_names();
  for (const LossField& field : kLossFields) names.emplace_back(field.name);
  for (const auto& [metric, _] : measurement.metrics) names.push_back(metric);
  throw Error(Code::kUsage, fmt::format("[tune] objective '{}' found; one of {} expected{}", name,
                                        fmt::join(names, ", "), did_you_mean(name, names)));
}

}  // namespace seqto
