// Room: orchestrator/tune. What a study notes of single layers: their errors and values.
#pragma once

#include <span>
#include <vector>

#include "orchestrator/tune/references.h"

namespace seqto::internal {

// The error analysis, which the published procedure follows; noted once.
Sensitivity ranked(const Inputs& inputs, Study& study, References& references, const Env& env);

// Of the weights, in these plans; noted once.
std::vector<LocalError> local_errors_of(std::span<const Plan> plans, const Inputs& inputs, Study& study,
                                        References& references);

// What the report's view of single layers needs besides, noted once. Values are those of 32 samples, which is enough
// for a picture.
void note_tensors(const Inputs& inputs, Study& study, References& references, const Env& env);

}  // namespace seqto::internal
