#include "orchestrator/tune/evaluations.h"

#include <utility>
#include <vector>

#include "base/parallel.h"
#include "orchestrator/tune/options.h"

namespace seqto::internal {

LocalEvaluations::LocalEvaluations(Context context) : c_(std::move(context)) {
  if (c_.before) last_ = c_.references.candidate(*c_.before);
}

std::optional<Model> LocalEvaluations::made(const Proposal& proposal) {
  std::lock_guard lock(making_);  // a Quantizer makes one candidate at a time
  const bool reported = proposal.part == Part::kEvaluation && c_.reported;
  Model model = reported ? c_.reported(proposal.plan) : c_.references.candidate(proposal.plan);
  if (!last_) return model;
  if (equal(model, *last_)) return {};
  return last_ = std::move(model);
}

bool LocalEvaluations::measure(std::span<const Proposal> proposals, const std::function<void(Trial)>& done,
                               const std::function<bool()>&) {
  std::vector<Trial> trials(proposals.size());
  for_each_in_order(
      proposals.size(), c_.jobs,
      [&](size_t i) {
        const Proposal& proposal = proposals[i];
        const auto model = made(proposal);
        if (!model) return;
        Trial trial{.id = c_.references.written(proposal.plan).hash(),
                    .number = proposal.number,
                    .plan = proposal.plan,
                    .excluded = proposal.excluded,
                    .part = proposal.part,
                    .step = proposal.step};
        trials[i] =
            evaluate(*model, std::move(trial), {c_.references.places, c_.env, c_.prefixes, c_.target}, proposal.race);
      },
      [&](size_t i) {
        if (!trials[i].id.empty()) done(std::move(trials[i]));
      });
  return true;
}

std::optional<Prefixes> search_prefixes(const Inputs& in, const References& r) {
  const Place& first = r.places.front();
  const TuneOptions& o = in.options;
  if (first.search.samples.empty() || !o.dataset.states.empty() || is_own_device(o, first.device)) return {};
  constexpr int64_t kBytes = 256 << 20;
  return std::make_optional<Prefixes>(r.base.model, *in.samples.data, first.search.samples, *first.runner, kBytes);
}

}  // namespace seqto::internal
