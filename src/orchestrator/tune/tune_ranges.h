// Room: orchestrator/tune. The ranges of activations that a study's candidates have, calibrated once and kept in its
// notes.
#pragma once

#include <map>
#include <span>
#include <string>

#include "seqto/calibrate.h"
#include "seqto/metrics.h"
#include "seqto/tune.h"

namespace seqto::internal {

Ranges tuned_ranges(const TuneOptions& options, const Model& model, const Dataset& data,
                    std::span<const int64_t> samples, Runner& runner, Study& study, const Env& env);

// Those that schemes to choose from name as their `method`, by that name. `ranges`: as above, for what names the
// method that the study has anyway.
std::map<std::string, Ranges> named_ranges(const TuneOptions& options, const Ranges& ranges, const Model& model,
                                           const Dataset& data, std::span<const int64_t> samples, Runner& runner,
                                           Study& study, const Env& env);

}  // namespace seqto::internal
