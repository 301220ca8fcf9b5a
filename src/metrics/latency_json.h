// Room: metrics. A latency as studies and summaries hold it.
#pragma once

#include <nlohmann/json.hpp>

#include "seqto/metrics.h"

namespace seqto::internal {

inline nlohmann::ordered_json latency_to_json(const Latency& latency) {
  nlohmann::ordered_json json{{"median", latency.median_ns}, {"p10", latency.p10_ns}, {"p90", latency.p90_ns}};
  if (const auto& ratio = latency.over_float)
    json["over_float"] = {{"value", ratio->value}, {"interval", {ratio->interval.low, ratio->interval.high}}};
  return json;
}

inline Latency latency_from_json(const nlohmann::ordered_json& json) {
  Latency latency{.median_ns = json.at("median"), .p10_ns = json.at("p10"), .p90_ns = json.at("p90")};
  if (const auto ratio = json.find("over_float"); ratio != json.end())
    latency.over_float = {ratio->at("value"), {ratio->at("interval").at(0), ratio->at("interval").at(1)}};
  return latency;
}

}  // namespace seqto::internal
