#include <algorithm>
#include <cmath>
#include <limits>

#include "search/strategies/replay.h"
#include "search/strategies/strategies.h"

namespace seqto {
namespace {

using namespace internal;

// Plans of least loss for each cost of a grid, by the dynamic program of the multiple-choice knapsack problem: exact
// but for what costs are rounded by.
class LeastLosses {
 public:
  static constexpr size_t kSteps = 2000;  // of what can be saved

  LeastLosses(const ChoiceTable& loss, const ChoiceTable& cost) : taken_(loss.size()) {
    double most = 1e-12;
    for (const auto& row : cost) most -= *std::ranges::min_element(row);
    std::vector<double> least(kSteps + 1, kNone);
    least[0] = 0;
    for (size_t g = 0; g < loss.size(); ++g) {
      std::vector<double> next(kSteps + 1, kNone);
      taken_[g].resize(kSteps + 1);
      for (size_t c = 0; c < loss[g].size(); ++c) {
        if (!std::isfinite(loss[g][c])) continue;  // what failed cannot be taken
        const auto step = static_cast<ptrdiff_t>(std::floor(-cost[g][c] / most * kSteps));
        for (size_t at = 0; at <= kSteps; ++at) {
          if (least[at] == kNone) continue;
          const ptrdiff_t sum = std::min<ptrdiff_t>(static_cast<ptrdiff_t>(at) + step, kSteps);
          const auto to = static_cast<size_t>(sum);
          if (sum < 0 || least[at] + loss[g][c] >= next[to]) continue;
          next[to] = least[at] + loss[g][c];
          taken_[g][to] = {static_cast<int>(c), at};
        }
      }
      least = std::move(next);
    }
    // What saves more than was asked for will do as well.
    best_.resize(kSteps + 1, kSteps);
    for (size_t at = kSteps + 1, best = kSteps; at-- > 0; best_[at] = best)
      if (least[at] < least[best]) best = at;
    end_ = kSteps;
    while (end_ > 0 && least[end_] == kNone) --end_;
  }

  // That saves at least `share` of what all choices together save, as far as they do.
  Assignment plan(double share) const {
    size_t at = best_[std::min(end_, static_cast<size_t>(share * static_cast<double>(kSteps)))];
    Assignment plan(taken_.size());
    for (size_t g = taken_.size(); g-- > 0; at = taken_[g][at].from) plan[g] = taken_[g][at].choice;
    return plan;
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  struct Taken {
    int choice = 0;
    size_t from = 0;
  };
  std::vector<std::vector<Taken>> taken_;  // for each group and step
  std::vector<size_t> best_;               // for each step the one of least loss from there on
  size_t end_ = 0;
};

class DynamicProgram : public Replay {
 public:
  using Replay::Replay;

 private:
  void search() override {
    const ChoiceTable alone = one_in();
    if (plans_.empty()) {
      const std::vector<ChoiceTable> costs = mixed_costs();
      const int64_t each = std::max<int64_t>(2, left() / std::ssize(costs));
      for (const ChoiceTable& cost : costs) {
        const LeastLosses least(alone, cost);
        for (int64_t i = 1; i <= each; ++i)
          plans_.push_back(least.plan(static_cast<double>(i) / static_cast<double>(each)));
      }
    }
    losses(plans_);
  }

  std::vector<Assignment> plans_;  // found once for the losses, which do not change
};

}  // namespace

std::unique_ptr<Strategy> make_dynamic_program(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<DynamicProgram>(space, options);
}

}  // namespace seqto
