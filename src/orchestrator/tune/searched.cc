#include "orchestrator/tune/searched.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orchestrator/tune/course.h"
#include "orchestrator/tune/error_analysis.h"
#include "orchestrator/tune/own_corrections.h"
#include "orchestrator/tune/predicted_latencies.h"
#include "orchestrator/tune/search_loop.h"
#include "orchestrator/tune/search_space.h"

namespace seqto::internal {
namespace {

// Null where there is no time for them, or the device does not tell what its nodes cost.
std::unique_ptr<PredictedLatencies> predicted_latencies(const Workbench& w, const SearchSpace& space, References& r,
                                                        OpenStudy& study, const Inputs& in) {
  if (!notes::kLatencyModel.is_in(w.study) && profile_seconds(w.options, w.time) > w.time.profiling()) {
    w.time.leave_out("predicted latencies: the search followed size alone");
    return {};
  }
  auto latencies = PredictedLatencies::of({.bench = w,
                                           .groups = space.groups,
                                           .candidate = [&r](const Plan& plan) { return r.candidate(plan); },
                                           .place = r.places.front(),
                                           .inputs = first_inputs(in)});
  if (!latencies)
    study.ending.notes.push_back(fmt::format(
        "{} does not tell what its nodes cost: the search followed size alone, latencies are measured all the same",
        r.places.front().device));
  return latencies;
}

StrategyOptions strategy_options(const Inputs& in, const OpenStudy& study, const SearchSpace& space,
                                 const TimeBudget& time) {
  const TuneOptions& o = in.options;
  StrategyOptions options = o.search;
  options.objectives = study.ending.objectives;
  options.time_spent = time.search_spent(Closing::now(o, time).kept(o, time));
  options.seed = o.dataset.seed;
  set_bounds(options, o.limits, space);
  return options;
}

void note_what_if(const SearchSpace& space, const StrategyOptions& options, Study& study,
                  const SchemeCorrections& corrections) {
  const auto looked = [](const Trial& t) { return t.part == Part::kSearch; };
  if (space.groups.empty() || std::ranges::none_of(study.trials(), looked)) return;
  WhatIf learned = what_if(space, options, study);
  for (WhatIf::Group& group : learned.groups)
    for (WhatIf::Choice& choice : group.choices) choice.plan = with_fields(corrections, std::move(choice.plan));
  notes::kWhatIf.add(study, learned);
}

}  // namespace

Searched search(const Inputs& in, OpenStudy& study, References& r, TimeBudget& time) {
  const TuneOptions& o = in.options;
  begin_step(Step::kSearch, in.env);
  const Workbench w = workbench(in, r.base, study.study, time);
  SearchSpace space = search_space(r.base.model, r.base.quantize, o);
  // Its order is that of the published search.
  if (!searches(o)) space.exclusion_order = exclusion_order(ranked(in, study.study, r, in.env), r.base.model);
  for (const auto& [id, scheme] : r.full.schemes) space.layers.push_back(id);
  space.size_of = [&r](const Plan& plan) { return serialized_size(r.candidate(plan)); };
  std::unique_ptr<PredictedLatencies> latencies;
  if (searches(o) && by_latency(o)) latencies = predicted_latencies(w, space, r, study, in);
  if (latencies) space.latency_of = std::cref(*latencies);

  const Place& first = r.places.front();
  std::optional<Prefixes> prefixes;
  if (!first.search.samples.empty() && o.dataset.states.empty() && !is_own_device(o, first.device)) {
    constexpr int64_t kPrefixBytes = 256 << 20;
    prefixes.emplace(r.base.model, *in.samples.data, first.search.samples, *first.runner, kPrefixBytes);
  }
  const StrategyOptions options = strategy_options(in, study, space, time);
  // What the limits ask for, as far as it is known before the finalists are timed, and while there is time.
  const auto worth_learning = [&](const Plan& plan, const Model& candidate) {
    const bool bounded = std::isfinite(options.max_size_bytes) || std::isfinite(options.max_latency_ns);
    if (!bounded || !time.leaves(r.learned.seconds + Closing::now(o, time).kept(o, time))) return false;
    return static_cast<double>(serialized_size(candidate)) <= options.max_size_bytes &&
           (!space.latency_of || space.latency_of(plan) <= options.max_latency_ns);
  };
  OwnCorrections own({w, r.quantizer, r.learned.corrections, first, followed_loss(options.objectives), worth_learning});
  Searched result;
  result.finished =
      run_search({.inputs = in,
                  .study = study,
                  .references = r,
                  .time = time,
                  .prefixes = prefixes ? &*prefixes : nullptr,
                  .strategy = [&] { return strategy_of(o, space, options); },
                  .learn =
                      [&](std::span<const Proposal> proposals) {
                        return latencies && o.strategy == "chain" && latencies->learn_from(proposals, options);
                      },
                  .reported = [&](const Plan& plan) { return own.corrected(plan); }});
  if (searches(o)) note_what_if(space, options, study.study, r.learned.corrections);
  if (latencies) result.prediction_error = latencies->error();
  return result;
}

}  // namespace seqto::internal
