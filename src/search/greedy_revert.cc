#include <algorithm>
#include <numeric>

#include "search/baselines.h"
#include "search/replay.h"

namespace seqto {
namespace {

using namespace internal;

class GreedyRevert : public Replay {
 public:
  using Replay::Replay;

 private:
  void search() override {
    Assignment plan;  // the choices that save most
    for (const auto& row : saved()) plan.push_back(static_cast<int>(std::ranges::max_element(row) - row.begin()));
    double now = loss(plan);
    std::vector<size_t> order = ranked(plan);
    while (!order.empty() && left() > 0) {
      plan[order.front()] = 0;
      order.erase(order.begin());
      const double before = now;
      now = loss(plan);
      if (now > before) order = ranked(plan);
    }
  }

  // The groups that are not float32 yet, those first whose return alone lowers the loss most.
  std::vector<size_t> ranked(const Assignment& plan) {
    std::vector<size_t> groups;
    std::vector<Assignment> reverted;
    for (size_t g = 0; g < plan.size(); ++g) {
      if (plan[g] == 0) continue;
      groups.push_back(g);
      (reverted.emplace_back(plan))[g] = 0;
    }
    const std::vector<double> found = losses(reverted);
    std::vector<size_t> order(groups.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](size_t i) { return found[i]; });
    for (size_t& i : order) i = groups[i];
    return order;
  }
};

}  // namespace

std::unique_ptr<Strategy> make_greedy_revert(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<GreedyRevert>(space, options);
}

}  // namespace seqto
