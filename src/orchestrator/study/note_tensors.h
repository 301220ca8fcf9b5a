// Room: orchestrator/study. What the report's view of single layers needs, noted in the study once.
#pragma once

#include <span>

#include "seqto/explain.h"
#include "seqto/metrics.h"

namespace seqto::internal {

// Notes "wiring" and "values", where the study has none yet. `full` is the fully quantized form of `model`; the values
// are those of the first 32 of `samples`, which is enough for a picture.
void note_tensors(Study& study, const Model& model, const Model& full, const Dataset& data,
                  std::span<const int64_t> samples, Runner& runner, const Env& env);

}  // namespace seqto::internal
