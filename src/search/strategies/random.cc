#include "search/strategies/baselines.h"
#include "search/strategies/random_plans.h"
#include "search/strategies/replay.h"

namespace seqto {
namespace {

using namespace internal;

class Random : public Replay {
 public:
  using Replay::Replay;

 private:
  bool races() const override { return options_.racing; }
  void search() override { losses(random_plans(assignments_, static_cast<size_t>(budget()), options_.seed)); }
};

}  // namespace

std::unique_ptr<Strategy> make_random(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<Random>(space, options);
}

}  // namespace seqto
