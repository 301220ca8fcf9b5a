#include "orchestrator/study/note_tensors.h"

#include <algorithm>

#include "orchestrator/study/notes.h"

namespace seqto::internal {

void note_tensors(Study& study, const Model& model, const Model& full, const Dataset& data,
                  std::span<const int64_t> samples, Runner& runner, const Env& env) {
  if (!study.noted("wiring")) study.note("wiring", wiring_to_json(layer_tensors(model)));
  if (study.noted("values")) return;
  constexpr size_t kSamples = 32;
  const auto some = samples.first(std::min(samples.size(), kSamples));
  study.note("values", values_to_json(
                           {static_cast<int64_t>(some.size()), tensor_values(model, full, {data, some, runner, env})}));
}

}  // namespace seqto::internal
