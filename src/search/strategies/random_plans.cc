#include "search/strategies/random_plans.h"

#include "base/random.h"

namespace seqto::internal {

std::vector<Assignment> random_plans(const Assignments& assignments, size_t count, uint64_t seed) {
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

}  // namespace seqto::internal
