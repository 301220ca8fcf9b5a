// Room: metrics. A latency as studies and summaries hold it.
#pragma once

#include <nlohmann/json.hpp>

#include "seqto/metrics.h"

namespace seqto::internal {

inline nlohmann::ordered_json latency_to_json(const Latency& latency) {
  return {{"median", latency.median_ns}, {"p10", latency.p10_ns}, {"p90", latency.p90_ns}};
}

inline Latency latency_from_json(const nlohmann::ordered_json& json) {
  return {json.at("median"), json.at("p10"), json.at("p90")};
}

}  // namespace seqto::internal
