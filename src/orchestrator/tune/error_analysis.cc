#include "orchestrator/tune/error_analysis.h"

#include <algorithm>

namespace seqto::internal {

Sensitivity ranked(const Inputs& in, Study& study, References& r, const Env& env) {
  return notes::kSensitivity.in_or(study, [&] {
    const Model& model = r.base.model;
    // The published order comes from the static model in dynamic runs as well.
    const std::vector<LayerId>& exclude = r.base.quantize.exclude;
    const Model quantized = quantized_scheme(in.options) == Scheme::kInt8
                                ? r.candidate(r.full)
                                : Quantizer(model, r.learned.ranges, {.exclude = exclude})
                                      .quantize(uniform_plan(model, Scheme::kInt8, exclude));
    return analyze(model, quantized, {*in.samples.data, in.samples.ranking, *in.runner, env});
  });
}

std::vector<LocalError> local_errors_of(std::span<const Plan> plans, const Inputs& in, Study& study, References& r) {
  return notes::kLocalErrors.in_or(study, [&] {
    std::vector<Model> quantized;
    for (const Plan& plan : plans) quantized.push_back(r.candidate(plan));
    return local_errors(r.base.model, quantized, {*in.samples.data, in.samples.split.calibration, *in.runner, in.env});
  });
}

void note_tensors(const Inputs& in, Study& study, References& r, const Env& env) {
  if (!notes::kWiring.is_in(study)) notes::kWiring.add(study, layer_tensors(r.base.model));
  if (notes::kValues.is_in(study)) return;
  constexpr size_t kSamples = 32;
  const std::span<const int64_t> all = in.samples.split.calibration, some = all.first(std::min(all.size(), kSamples));
  notes::kValues.add(study, {std::ssize(some), tensor_values(r.base.model, r.candidate(r.full),
                                                             {*in.samples.data, some, *in.runner, env})});
}

}  // namespace seqto::internal
