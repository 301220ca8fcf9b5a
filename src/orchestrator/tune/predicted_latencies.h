// Room: orchestrator/tune. The latencies that a search follows: from a profile, corrected by plans that are timed
// meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "orchestrator/tune/evaluate.h"
#include "orchestrator/tune/workbench.h"
#include "search/latency/latency_model.h"
#include "seqto/search.h"

namespace seqto::internal {

class PredictedLatencies {
 public:
  // All of it outlives this. `place`: the first device; `candidate` makes the model of a plan.
  struct Context {
    Workbench bench;
    const std::vector<SearchGroup>& groups;
    std::function<Model(const Plan&)> candidate;
    const Place& place;
    std::vector<Tensor> inputs;
  };
  // From the study's note, or profiled and fitted to plans that are timed in turn for it: the uniform
  // ones and some that mix static layers with float ones. Nothing where the device does not tell what its nodes cost.
  static std::unique_ptr<PredictedLatencies> of(Context context);

  double operator()(const Plan& plan) const { return model_.predict(plan); }

  // What a search picks by predictions is faster in them than it is. So what `chain` holds for its best before it goes
  // on from there, and what is to be reported, is timed in turn with the float model, and the predictions learn from
  // it. True: they did, and the proposals are to be made anew.
  bool learn_from(std::span<const Proposal> proposals, const StrategyOptions& options);

  // How far off they were on plans before these were timed. Empty: too few.
  std::string error() const;

 private:
  PredictedLatencies(Context context, LatencyModel model) : c_(std::move(context)), model_(std::move(model)) {}

  std::unique_ptr<Session> loaded(const Plan& plan) const;  // null where the runtime does not take it
  // The float model and as many of these as there is time and memory for, in nanoseconds of the first time.
  std::vector<LatencyModel::Measured> timed(std::span<const Plan> plans) const;
  std::vector<Plan> best(const StrategyOptions& options) const;  // as the study is, by loss and predictions
  void save() const;

  Context c_;
  LatencyModel model_;
  bool chain_timed_ = false;
  int reports_timed_ = 0;
  int64_t looked_at_ = 0;       // moves of the study when the best were timed
  std::vector<double> errors_;  // relative to what was measured
};

}  // namespace seqto::internal
