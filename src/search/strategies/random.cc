#include "base/random.h"

#include <set>
#include <utility>

#include "search/strategies/replay.h"
#include "search/strategies/strategies.h"

namespace seqto {
namespace {

using namespace internal;

class Random : public Replay {
 public:
  using Replay::Replay;

 private:
  bool races() const override { return options_.racing; }
  void search() override { losses(distinct_plans(assignments_, static_cast<size_t>(budget()), options_.seed)); }
};

}  // namespace

std::vector<Assignment> internal::random_plans(const Assignments& assignments, size_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  constexpr uint64_t kFine = 1 << 20;
  std::vector<Assignment> plans;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t share = below(kFine + 1, engine);
    Assignment plan = assignments.all_float();
    for (size_t g = 0; g < plan.size(); ++g)
      if (below(kFine, engine) < share) plan[g] = 1 + static_cast<int>(below(assignments.choices(g) - 1, engine));
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::vector<Assignment> internal::distinct_plans(const Assignments& assignments, size_t count, uint64_t seed) {
  constexpr size_t kDraws = 4;  // some 9 % are float with ten groups, few are drawn twice
  std::set<Assignment> drawn{assignments.all_float()};
  std::vector<Assignment> plans;
  for (Assignment& plan : random_plans(assignments, kDraws * count, seed))
    if (plans.size() < count && drawn.insert(plan).second) plans.push_back(std::move(plan));
  return plans;
}

std::unique_ptr<Strategy> make_random(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<Random>(space, options);
}

}  // namespace seqto
