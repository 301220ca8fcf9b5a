#include <fmt/format.h>

#include <deque>
#include <map>
#include <set>

#include "search/strategies/finalists.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using namespace internal;

class Proposed : public Strategy {
 public:
  Proposed(std::unique_ptr<Proposer> proposer, const SearchSpace& space, const StrategyOptions& options)
      : proposer_(std::move(proposer)),
        space_(space),
        options_(options),
        assignments_(space_),
        archive_(space_, options_) {}

  std::vector<Proposal> next(const Study& study, bool wrap_up) override {
    if (space_.groups.empty()) return {};
    archive_.update(study);
    update(study);
    tell(study);
    constexpr int kIdle = 1000;
    for (int idle = 0; !over_ && !wrap_up; ++idle) {
      if (!waiting_.empty()) return to_measure();
      over_ = idle == kIdle || !ask();
      tell(study);
    }
    return finalists_to_measure(archive_, assignments_, options_.front);
  }
  int64_t expected() const override { return options_.evaluations > 0 ? options_.evaluations + options_.front : 0; }

 private:
  void update(const Study& study) {
    for (; seen_ < study.trials().size(); ++seen_) {
      const Trial& trial = study.trials()[seen_];
      if (trial.part != Part::kSearch) continue;
      if (const auto assignment = archive_.read(trial.plan)) places_[*assignment] = seen_;
    }
  }

  void tell(const Study& study) {
    for (; !waiting_.empty(); waiting_.pop_front()) {
      const auto place = places_.find(waiting_.front());
      if (place == places_.end()) return;
      proposer_->tell(study.trials()[place->second]);
    }
  }

  // False where the search is over.
  bool ask() {
    const auto most = options_.evaluations > 0 ? static_cast<size_t>(options_.evaluations) : SIZE_MAX;
    if (asked_.size() >= most) return false;
    const std::vector<Plan> plans = proposer_->ask();
    for (const Plan& plan : plans) {
      const auto assignment = archive_.read(plan);
      if (!assignment) refuse(plan);
      if (asked_.size() == most && !asked_.contains(*assignment)) break;
      asked_.insert(*assignment);
      waiting_.push_back(*assignment);
    }
    return !plans.empty();
  }

  [[noreturn]] void refuse(const Plan& plan) const {
    throw Error(Code::kUsage,
                fmt::format("[tune] the strategy asks for a plan of {} layers that the search space does not have; one "
                            "of the choices for each of its {} groups expected",
                            plan.schemes.size(), space_.groups.size()));
  }

  std::vector<Proposal> to_measure() const {
    std::vector<Proposal> proposals;
    std::set<Assignment> proposed;
    for (const Assignment& assignment : waiting_)
      if (!places_.contains(assignment) && proposed.insert(assignment).second)
        proposals.push_back({assignments_.plan(assignment), {}, Part::kSearch, "search", {}});
    return proposals;
  }

  const std::unique_ptr<Proposer> proposer_;
  const SearchSpace space_;
  const StrategyOptions options_;
  const Assignments assignments_;
  Archive archive_;
  size_t seen_ = 0;
  std::map<Assignment, size_t> places_;  // in the study
  std::set<Assignment> asked_;
  std::deque<Assignment> waiting_;  // asked for and not told of
  bool over_ = false;
};

}  // namespace

std::unique_ptr<Strategy> make_strategy(std::unique_ptr<Proposer> proposer, const SearchSpace& space,
                                        const StrategyOptions& options) {
  return std::make_unique<Proposed>(std::move(proposer), space, options);
}

}  // namespace seqto
