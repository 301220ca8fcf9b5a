#include <algorithm>
#include <map>

#include "metrics/loss/loss_fields.h"
#include "seqto/metrics.h"

namespace seqto {

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const LossField& field : kLossFields) names.emplace_back(field.name);
  return names;
}

std::vector<std::string> cost_names() { return {"size", "latency", "decode_latency"}; }

bool is_loss(const std::string& objective) {
  return std::ranges::any_of(kLossFields, [&](const LossField& field) { return field.name == objective; });
}

bool is_cost(const std::string& objective) { return std::ranges::count(cost_names(), objective) > 0; }

bool is_task_metric(const std::string& objective) { return !is_cost(objective) && !is_loss(objective); }

std::string followed_loss(const std::vector<std::string>& objectives) {
  if (const auto loss = std::ranges::find_if(objectives, is_loss); loss != objectives.end()) return *loss;
  const auto metric = std::ranges::find_if(objectives, is_task_metric);
  if (metric == objectives.end()) return "kl";
  static const std::map<std::string, std::string> kStandIns{
      {"top1", "kl"}, {"top5", "kl"},  {"f1", "kl"},   {"accuracy", "kl"},         {"perplexity", "kl"},
      {"mae", "mse"}, {"rmse", "mse"}, {"nme", "mse"}, {"topk_overlap", "cosine"}, {"wer", "kl"},
      {"cer", "kl"}};
  const auto stand_in = kStandIns.find(*metric);
  return stand_in == kStandIns.end() ? "nmse" : stand_in->second;
}

}  // namespace seqto
