#include <algorithm>
#include <ranges>
#include <unordered_set>

#include "search/strategies/strategies.h"

namespace seqto {
namespace {

// Measured for comparison, not proposed by a strategy.
bool is_reference(const Trial& trial) { return trial.id == "float" || trial.id == "published"; }

class Incremental : public Strategy {
 public:
  Incremental(const SearchSpace& space, const StrategyOptions& options)
      : layers_(space.layers), scheme_(space.scheme), threshold_(options.threshold) {
    std::unordered_set<std::string> seen;
    for (const std::string& entry : space.exclusion_order) {
      if (seen.insert(entry).second) order_.push_back(entry);
    }
  }

  std::vector<Proposal> next(const Study& study, bool wrap_up) override {
    if (wrap_up) return {};  // every trial is one of the report
    if (!cursor_) cursor_ = cycles_done(study);
    if (layers_.empty() || *cursor_ > order_.size() || stopped(study)) return {};
    return {proposal((*cursor_)++)};
  }

  int64_t expected() const override { return static_cast<int64_t>(order_.size()) + 1; }

 private:
  // The exclusion list tells how far a study came. Cycles that changed nothing left no trial; those after the
  // last trial are proposed once more and dropped once more. A failed cycle is done as well.
  size_t cycles_done(const Study& study) const {
    for (const Trial& trial : study.trials() | std::views::reverse) {
      if (!is_reference(trial) && trial.excluded.size() <= order_.size() &&
          std::equal(trial.excluded.begin(), trial.excluded.end(), order_.begin())) {
        return trial.excluded.size() + 1;
      }
    }
    return 0;
  }

  bool stopped(const Study& study) const {
    for (const Trial& trial : study.trials() | std::views::reverse) {
      if (is_reference(trial)) continue;
      if (trial.measurement) return trial.measurement->losses.rank_dissimilarity <= threshold_;
    }
    return false;
  }

  Proposal proposal(size_t cycle) const {
    Proposal proposal{.excluded{order_.begin(), order_.begin() + static_cast<ptrdiff_t>(cycle)}};
    const std::unordered_set<std::string> excluded(proposal.excluded.begin(), proposal.excluded.end());
    for (const LayerId& layer : layers_) {
      if (!excluded.contains(layer)) proposal.plan.schemes[layer] = scheme_;
    }
    return proposal;
  }

  std::vector<LayerId> layers_;
  Scheme scheme_;
  std::vector<std::string> order_;  // without repetitions
  double threshold_;
  std::optional<size_t> cursor_;  // entries to exclude in the next proposal; unset: look at the study first
};

}  // namespace

std::unique_ptr<Strategy> make_incremental(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<Incremental>(space, options);
}

}  // namespace seqto
