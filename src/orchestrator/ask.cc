#include "seqto/ask.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "metrics/study_header.h"
#include "orchestrator/study/asked.h"
#include "orchestrator/study/study_files.h"
#include "orchestrator/tune/searched.h"
#include "seqto/error.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

using namespace internal;
namespace fs = std::filesystem;

// The search ends where it wants to measure: others will.
class Asking : public Evaluations {
 public:
  bool measure(std::span<const Proposal>, const std::function<void(Trial)>&, const std::function<bool()>&) override {
    return false;
  }
};

void require_a_search(const TuneOptions& o) {
  if (o.max_time_seconds > 0)
    throw Error(Code::kUsage,
                "[ask] --max-time found, which is about one run on one machine; none expected; limit the trials, with "
                "--search-evaluations or --max-evaluations");
  if (!searches(o))
    throw Error(Code::kUsage, fmt::format("[ask] strategy {} found, which measures for the report alone; one that "
                                          "searches expected, as chain; `seqto tune` runs it",
                                          o.strategy));
}

bool has_searched(const Study& study) {
  return std::ranges::any_of(study.trials(), [](const Trial& t) { return t.part == Part::kSearch; });
}

void go_on_to_next_step(const Inputs& inputs, OpenStudy& study, TimeBudget& time) {
  // What the report has from the start is measured before the first step.
  References references = has_searched(study.study) ? begun_references(inputs, study, time, FloatRuns::kNone)
                                                    : measure_references(inputs, study, time);
  Asking asking;
  const Searched searched = search(inputs, study, references, time, {&asking, true});
  inputs.env.stop_if_cancelled("ask");
}

}  // namespace

std::vector<Proposal> ask(const TuneOptions& options, const Env& env) {
  require_a_search(options);
  const fs::path& dir = options.output;
  const FileLock lock = lock_asked(dir, env);
  TimeBudget time(0, env);
  const Inputs inputs = open_inputs(options, time, env);
  OpenStudy study = open_study(inputs);
  take_told(dir, study.study);
  if (auto proposals = missing(dir, study.study); !proposals.empty()) return proposals;
  go_on_to_next_step(inputs, study, time);
  return missing(dir, study.study);
}

std::vector<Proposal> asked(const fs::path& dir, const Env& env) {
  const FileLock lock = lock_asked(dir, env);
  return is_begun(dir) ? missing(dir, study_told(dir)) : std::vector<Proposal>();
}

struct Evaluator::Impl {
  Impl(const TuneOptions& options, const Env& outer)
      : env(outer),
        time(0, env),
        inputs(open_inputs(options, time, env, Access::kRead)),
        study(read_study(inputs)),
        references(begun_references(inputs, study, time, FloatRuns::kSearch)),
        prefixes(search_prefixes(inputs, references)),
        here({.references = references,
              .env = env,
              .prefixes = prefixes ? &*prefixes : nullptr,
              .target = inputs.target ? &*inputs.target : nullptr}) {}

  Env env;
  TimeBudget time;
  Inputs inputs;
  OpenStudy study;
  References references;
  std::optional<Prefixes> prefixes;
  LocalEvaluations here;
};

Evaluator::Evaluator(const TuneOptions& options, const Env& env) {
  TuneOptions one = options;
  one.jobs = 1;
  require_a_search({.strategy = one.strategy});
  impl_ = std::make_unique<Impl>(one, env);
}
Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;

Trial Evaluator::evaluate(const Proposal& proposal) {
  if (proposal.part == Part::kEvaluation)
    throw Error(Code::kInvalidInput,
                "[eval] a proposal on the samples of the report found; one on search or acceptance samples expected: "
                "`seqto ask` prints them");
  Trial result;
  impl_->here.measure(std::span(&proposal, 1), [&](Trial trial) { result = std::move(trial); });
  return result;
}

Result Evaluator::answer(const std::string& proposal) {
  Result result{.study = study_id(impl_->study.study.header())};
  try {
    const Proposal asked = proposal_from_json(proposal);
    result.number = asked.number;
    result.trial = evaluate(asked);
  } catch (const Error& error) {
    if (error.code() == Code::kInterrupted) throw;
    result.error = error.what();
  }
  return result;
}

}  // namespace seqto
