#include <algorithm>

#include "search/strategies/knapsack.h"
#include "search/strategies/replay.h"
#include "search/strategies/strategies.h"

namespace seqto {
namespace {

using namespace internal;

class DynamicProgram : public Replay {
 public:
  using Replay::Replay;

 private:
  void search() override {
    const ChoiceTable alone = one_in();
    if (plans_.empty()) {
      const std::vector<ChoiceTable> costs = mixed_costs();
      const int64_t each = std::max<int64_t>(2, left() / std::ssize(costs));
      for (const ChoiceTable& cost : costs)
        for (Assignment& plan : least_losses(alone, cost, shares_from(share_to_save(), each)))
          plans_.push_back(std::move(plan));
    }
    if (options_.evaluations > 0) walk(plans_);
    else losses(plans_);
  }

  std::vector<Assignment> plans_;  // found once for the losses, which do not change
};

}  // namespace

std::unique_ptr<Strategy> make_dynamic_program(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<DynamicProgram>(space, options);
}

}  // namespace seqto
