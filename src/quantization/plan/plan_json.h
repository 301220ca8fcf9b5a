// A plan inside of other JSON: of a trial, a proposal, a choice.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "seqto/plan.h"

namespace seqto::internal {

// `schemes`: what plan_to_json() has under that name. Throws as plan_from_json().
Plan plan_of(const nlohmann::ordered_json& schemes);

}  // namespace seqto::internal
