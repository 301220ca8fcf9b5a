#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "metrics/loss_fields.h"
#include "seqto/error.h"
#include "seqto/search.h"

namespace seqto {

double objective(const Measurement& measurement, const std::string& name) {
  if (name == "size") return static_cast<double>(measurement.size_bytes);
  if (name == "latency") return static_cast<double>(measurement.latency.median_ns);
  for (const LossField& field : kLossFields) {
    if (field.name == name) return measurement.losses.*field.value;
  }
  if (const auto metric = measurement.metrics.find(name); metric != measurement.metrics.end()) {
    return measurement.lower_is_better.contains(name) ? metric->second : 1 - metric->second;
  }
  std::vector<std::string> names{"size", "latency"};
  for (const LossField& field : kLossFields) names.emplace_back(field.name);
  for (const auto& [metric, _] : measurement.metrics) names.push_back(metric);
  throw Error(Code::kUsage,
              fmt::format("[tune] objective '{}' found; one of {} expected", name, fmt::join(names, ", ")));
}

bool is_loss(const std::string& objective) {
  return std::ranges::any_of(kLossFields, [&](const LossField& field) { return field.name == objective; });
}

bool is_task_metric(const std::string& objective) {
  return objective != "size" && objective != "latency" && !is_loss(objective);
}

std::string followed_loss(const std::vector<std::string>& objectives) {
  if (const auto loss = std::ranges::find_if(objectives, is_loss); loss != objectives.end()) return *loss;
  const auto metric = std::ranges::find_if(objectives, is_task_metric);
  if (metric == objectives.end()) return "kl";
  static const std::set<std::string> kOfClasses{"top1", "top5", "f1", "accuracy"}, kOfValues{"mae", "rmse", "nme"};
  return kOfClasses.contains(*metric) ? "kl" : kOfValues.contains(*metric) ? "mse" : "nmse";
}

}  // namespace seqto
