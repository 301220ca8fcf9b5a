// Room: orchestrator. A study's latency model: from its note or profiled, fitted to what its trials took.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orchestrator/evaluate.h"
#include "orchestrator/latency_model.h"
#include "orchestrator/notes.h"

namespace seqto::internal {

// Of the first device. Nothing, and a note in `ending`, where it does not tell what its nodes cost.
std::optional<LatencyModel> fitted_latency_model(const Model& model, const std::vector<SearchGroup>& groups,
                                                 const std::function<Model(const Plan&)>& candidate, const Place& place,
                                                 std::span<const Tensor> inputs, Study& study, Ending& ending);

// Says in `ending` how far the model is off on the plans that were measured on the device, if they are six or more.
void note_error(const LatencyModel& model, const std::string& device, const Study& study, Ending& ending);

}  // namespace seqto::internal
