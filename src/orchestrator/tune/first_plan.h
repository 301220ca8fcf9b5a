// Room: orchestrator/tune. What a search with little time measures before anything is calibrated.
#pragma once

#include <optional>
#include <span>

#include "seqto/search.h"
#include "seqto/tune.h"

namespace seqto::internal {

struct FirstPlan {
  Trial trial;  // yet to be measured
  Model candidate;
};

// The plan that `chain` looks at first, where that needs no ranges: int8_weights everywhere, which saves most of the
// bytes and loses next to nothing. Nothing where there is time enough (is_hurried), where latencies decide, for other
// strategies, and where the study has the plan.
std::optional<FirstPlan> first_plan(const TuneOptions& options, const SearchSpace& space, const Dataset& data,
                                    std::span<const int64_t> samples, Runner& runner, Study& study, const Env& env);

}  // namespace seqto::internal
