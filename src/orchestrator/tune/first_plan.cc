#include "orchestrator/tune/first_plan.h"

#include "orchestrator/tune/improvements.h"
#include "orchestrator/tune/tune_options.h"
#include "search/strategies/assignments.h"

namespace seqto::internal {

std::optional<FirstPlan> first_plan(const TuneOptions& o, const SearchSpace& space, const Dataset& data,
                                    std::span<const int64_t> samples, Runner& runner, Study& study, const Env& env) {
  if (o.strategy != "chain" || !is_hurried(o) || by_latency(o)) return {};
  const DetailedScheme scheme{Scheme::kInt8Weights, {}};
  const Assignments assignments(space);
  Plan plan = assignments.plan(assignments.uniform(scheme));
  if (plan.schemes.empty() || study.find(plan.hash())) return {};
  const auto corrections = find_first_corrections(o, scheme, *space.model, data, samples, runner, study, env);
  FirstPlan first;
  first.candidate = apply(corrections, Quantizer(*space.model, {}, o.quantize).quantize(plan), plan);
  first.trial.id = plan.hash();
  first.trial.plan = std::move(plan);
  first.trial.step = "uniform";
  return first;
}

}  // namespace seqto::internal
