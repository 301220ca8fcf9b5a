#include "search/latency/mixtures.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/random.h"
#include "search/strategies/assignments.h"

namespace seqto::internal {

std::vector<Plan> uniform_plans(const std::vector<SearchGroup>& groups) {
  const SearchSpace space{.groups = groups};
  const Assignments assignments(space);
  std::vector<Plan> plans;
  for (const DetailedScheme& scheme : assignments.schemes())
    plans.push_back(assignments.plan(assignments.uniform(scheme)));
  return plans;
}

std::vector<Plan> mixtures(const std::vector<SearchGroup>& groups, size_t count, uint64_t seed) {
  const SearchSpace space{.groups = groups};
  const Assignments assignments(space);
  std::vector<std::pair<size_t, int>> statics;
  for (size_t g = 0; g < assignments.groups(); ++g)
    for (int c = 1; c < static_cast<int>(assignments.choices(g)); ++c)
      if (is_static(assignments.scheme(g, c).scheme)) {
        statics.emplace_back(g, c);
        break;
      }
  std::vector<Plan> plans;
  if (statics.size() < 2) return plans;
  std::mt19937_64 engine(seed);
  for (size_t i = 0; i < count; ++i) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(count + 1);
    const auto taken = static_cast<size_t>(std::lround(share * static_cast<double>(statics.size())));
    std::vector<std::pair<size_t, int>> chosen = statics;
    if (i % 2) std::ranges::rotate(chosen, chosen.begin() + static_cast<ptrdiff_t>(below(chosen.size(), engine)));
    else
      for (size_t k = 0; k < taken; ++k) std::swap(chosen[k], chosen[k + below(chosen.size() - k, engine)]);
    Assignment mixed = assignments.all_float();
    for (size_t k = 0; k < taken; ++k) mixed[chosen[k].first] = chosen[k].second;
    plans.push_back(assignments.plan(mixed));
  }
  return plans;
}

}  // namespace seqto::internal
