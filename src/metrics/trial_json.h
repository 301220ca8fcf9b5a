// A trial inside of other JSON: a line of a study, a result.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "seqto/metrics.h"

namespace seqto::internal {

// As trial_to_json() writes it. Throws as trial_from_json().
Trial trial_of(const nlohmann::ordered_json& json);

}  // namespace seqto::internal
