#include "search/strategies/knapsack.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace seqto::internal {
namespace {

// One step along a group's hull, towards less loss.
struct HullStep {
  size_t group;
  int from, to;
  double slope;  // loss saved per cost
};

// Steps along the lower convex hull of one group's choices, from the cheapest on; `first` gets the cheapest.
std::vector<HullStep> hull_steps(size_t group, const std::vector<double>& loss, const std::vector<double>& cost,
                                 int& first) {
  std::vector<int> order(loss.size());
  for (size_t c = 0; c < order.size(); ++c) order[c] = static_cast<int>(c);
  std::ranges::stable_sort(order,
                           [&](int a, int b) { return std::pair(cost[a], loss[a]) < std::pair(cost[b], loss[b]); });
  std::vector<int> hull;
  auto slope = [&](int a, int b) { return (loss[a] - loss[b]) / (cost[b] - cost[a]); };
  for (int c : order) {
    if (!hull.empty() && loss[c] >= loss[hull.back()]) continue;  // dearer and no better
    while (hull.size() >= 2 && slope(hull.back(), c) >= slope(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(c);
  }
  first = hull[0];
  std::vector<HullStep> steps;
  for (size_t i = 1; i < hull.size(); ++i) steps.push_back({group, hull[i - 1], hull[i], slope(hull[i - 1], hull[i])});
  return steps;
}

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
        const auto step = static_cast<ptrdiff_t>(std::round(-cost[g][c] / most * kSteps));
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

}  // namespace

std::vector<Assignment> chain_of(const ChoiceTable& loss, const ChoiceTable& cost) {
  Assignment assignment(loss.size());
  std::vector<HullStep> steps;
  for (size_t g = 0; g < loss.size(); ++g)
    for (const HullStep& step : hull_steps(g, loss[g], cost[g], assignment[g])) steps.push_back(step);
  // Within a group slopes fall, so its steps stay in order.
  std::ranges::stable_sort(steps, std::greater(), &HullStep::slope);
  std::vector<Assignment> chain{assignment};
  for (const HullStep& step : steps) {
    assert(assignment[step.group] == step.from);
    assignment[step.group] = step.to;
    chain.push_back(assignment);
  }
  return chain;
}

std::vector<Assignment> least_losses(const ChoiceTable& loss, const ChoiceTable& cost, std::span<const double> shares) {
  const LeastLosses least(loss, cost);
  std::vector<Assignment> plans;
  for (const double share : shares) plans.push_back(least.plan(share));
  return plans;
}

std::vector<double> shares_from(double least, int64_t count) {
  std::vector<double> shares;
  for (int64_t i = 1; i <= count; ++i)
    shares.push_back(least + (1 - least) * static_cast<double>(i) / static_cast<double>(count));
  return shares;
}

}  // namespace seqto::internal
