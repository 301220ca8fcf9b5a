// What `validate` found as JSON, for results that hold several of it.
#pragma once

#include "base/json.h"
#include "seqto/validate.h"

namespace seqto::internal {

nlohmann::ordered_json parity_json(const Parity& parity);
nlohmann::ordered_json first_difference_json(const FirstDifference& first);

}  // namespace seqto::internal
