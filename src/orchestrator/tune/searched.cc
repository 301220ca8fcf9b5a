#include "orchestrator/tune/searched.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>

#include "orchestrator/tune/course.h"
#include "orchestrator/tune/error_analysis.h"
#include "orchestrator/tune/own_corrections.h"
#include "orchestrator/tune/predicted_latencies.h"
#include "orchestrator/tune/search_loop.h"
#include "orchestrator/tune/search_space.h"
#include "search/strategies/strategies.h"

namespace seqto::internal {
namespace {

// Null where there is no time for them, or the device does not tell what its nodes cost.
std::unique_ptr<PredictedLatencies> predicted_latencies(const Workbench& w, const SearchSpace& space, References& r,
                                                        OpenStudy& study, const Inputs& in) {
  const bool dear = measures_once(w.options, w.study) || profile_seconds(w.options, w.time) > w.time.profiling();
  if (!notes::kLatencyModel.is_in(w.study) && dear) {
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
  // The texts of those that are reported are written: plans are found by the loss that goes before.
  for (const std::string& asked : in.text_errors.asked) {
    const std::string name = name_of_rate(asked), loss = followed_loss(options.objectives);
    if (std::erase(options.objectives, name) > 0 && std::ranges::count(options.objectives, loss) == 0)
      options.objectives.insert(options.objectives.begin(), loss);
  }
  options.time_spent = time.search_spent(Closing::now(o, time).kept(o, time));
  options.seed = o.dataset.seed;
  set_bounds(options, o.limits, space, in.model_bytes);
  return options;
}

// Has no more to propose where all that is left is for the report.
class UpToReport : public Strategy {
 public:
  explicit UpToReport(std::unique_ptr<Strategy> whole) : whole_(std::move(whole)) {}

  std::vector<Proposal> next(const Study& study, bool wrap_up) override {
    std::vector<Proposal> proposals = whole_->next(study, wrap_up);
    const auto reported = [](const Proposal& p) { return p.part == Part::kEvaluation; };
    return std::ranges::all_of(proposals, reported) ? std::vector<Proposal>() : proposals;
  }
  int64_t expected() const override { return whole_->expected(); }

 private:
  std::unique_ptr<Strategy> whole_;
};

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

Searched search(const Inputs& in, OpenStudy& study, References& r, TimeBudget& time, const Elsewhere& elsewhere) {
  const TuneOptions& o = in.options;
  begin_step(Step::kSearch, in.env);
  const Workbench w = workbench(in, r.base, study.study, time);
  SearchSpace space = search_space(r.base.model, r.base.quantize, o);
  // Its order is that of the published search.
  if (!searches(o)) space.exclusion_order = exclusion_order(ranked(in, study.study, r, in.env), r.base.model);
  for (const auto& [id, scheme] : r.full.schemes) space.layers.push_back(id);
  // Each quantizes the whole model, and a strategy that begins anew asks for those of the one before.
  std::unordered_map<std::string, int64_t> sizes;  // by Plan::hash()
  space.size_of = [&](const Plan& plan) {
    std::string id = plan.hash();
    if (const auto found = sizes.find(id); found != sizes.end()) return found->second;
    const int64_t size = serialized_size(r.candidate(plan));
    sizes.emplace(std::move(id), size);
    return size;
  };
  space.local_errors = [&](std::span<const Plan> plans) { return local_errors_of(plans, in, study.study, r); };
  std::unique_ptr<PredictedLatencies> latencies;
  if (searches(o) && by_latency(o) && !space.groups.empty()) latencies = predicted_latencies(w, space, r, study, in);
  if (latencies) space.latency_of = std::cref(*latencies);

  const Place& first = r.places.front();
  const StrategyOptions options = strategy_options(in, study, space, time);
  // What the limits ask for, as far as it is known before the finalists are timed, and while there is time.
  const auto worth_learning = [&](const Plan& plan, const Model& candidate) {
    const bool bounded = std::isfinite(options.max_size_bytes) || std::isfinite(options.max_latency_ns);
    if (!bounded || !time.leaves(r.learned.seconds + Closing::now(o, time).kept(o, time))) return false;
    return static_cast<double>(serialized_size(candidate)) <= options.max_size_bytes &&
           (!space.latency_of || space.latency_of(plan) <= options.max_latency_ns);
  };
  OwnCorrections own({w, r.quantizer, r.learned.corrections, first, followed_loss(options.objectives), worth_learning});
  const std::optional<Prefixes> prefixes = elsewhere.evaluations ? std::nullopt : search_prefixes(in, r);
  LocalEvaluations here({.references = r,
                         .env = in.env,
                         .prefixes = prefixes ? &*prefixes : nullptr,
                         .target = in.target ? &*in.target : nullptr,
                         .jobs = static_cast<size_t>(o.jobs),
                         .reported = [&](const Plan& plan) { return own.corrected(plan); },
                         .before = searches(o) ? std::nullopt : std::optional(study.study.trials().back().plan)});
  const auto strategy = [&]() -> std::unique_ptr<Strategy> {
    auto whole = strategy_of(o, space, options);
    if (!elsewhere.ends_before_report) return whole;
    return std::make_unique<UpToReport>(std::move(whole));
  };
  Searched result;
  result.finished =
      run_search({.inputs = in,
                  .study = study,
                  .references = r,
                  .time = time,
                  .here = here,
                  .elsewhere = elsewhere.evaluations,
                  .strategy = strategy,
                  .learn = [&](std::span<const Proposal> proposals) {
                    return latencies && traits_of(o.strategy).adapts && latencies->learn_from(proposals, options);
                  }});
  if (elsewhere.ends_before_report) return result;
  if (searches(o)) note_what_if(space, options, study.study, r.learned.corrections);
  if (latencies) result.prediction_error = latencies->error();
  return result;
}

}  // namespace seqto::internal
