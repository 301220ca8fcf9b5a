#include <algorithm>
#include <set>

#include "metrics/loss_fields.h"
#include "seqto/metrics.h"

namespace seqto {

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const LossField& field : kLossFields) names.emplace_back(field.name);
  return names;
}

bool is_loss(const std::string& objective) {
  return std::ranges::any_of(kLossFields, [&](const LossField& field) { return field.name == objective; });
}

bool is_cost(const std::string& objective) { return objective == "size" || objective == "latency"; }

bool is_task_metric(const std::string& objective) { return !is_cost(objective) && !is_loss(objective); }

std::string followed_loss(const std::vector<std::string>& objectives) {
  if (const auto loss = std::ranges::find_if(objectives, is_loss); loss != objectives.end()) return *loss;
  const auto metric = std::ranges::find_if(objectives, is_task_metric);
  if (metric == objectives.end()) return "kl";
  static const std::set<std::string> kOfClasses{"top1", "top5", "f1", "accuracy"}, kOfValues{"mae", "rmse", "nme"};
  return kOfClasses.contains(*metric) ? "kl" : kOfValues.contains(*metric) ? "mse" : "nmse";
}

}  // namespace seqto
