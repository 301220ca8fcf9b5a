#include <algorithm>
#include <cmath>

#include "search/strategies/replay.h"
#include "search/strategies/strategies.h"

namespace seqto {
namespace {

using namespace internal;

class GreedyBits : public Replay {
 public:
  using Replay::Replay;

 private:
  // A group at one of its choices instead of the cheapest: what that changes.
  struct Raised {
    int choice;
    double loss, cost;
  };

  void search() override {
    Assignment plan;
    for (const auto& row : saved()) plan.push_back(static_cast<int>(std::ranges::max_element(row) - row.begin()));
    const std::vector<std::vector<Raised>> raised = raised_from(plan);
    std::vector<size_t> level(plan.size());  // how many of the group's raised choices are behind
    std::vector<Assignment> path{plan};
    for (;;) {
      double best = 0;
      size_t group = 0, to = 0;
      for (size_t g = 0; g < raised.size(); ++g)
        for (size_t r = level[g]; r < raised[g].size(); ++r) {
          const Raised now = level[g] ? raised[g][level[g] - 1] : Raised{plan[g], 0, 0}, next = raised[g][r];
          const double rate = (weighed(next.loss) - weighed(now.loss)) / (next.cost - now.cost + 1);
          if (rate < best) best = rate, group = g, to = r;
        }
      if (best == 0) break;
      level[group] = to + 1;
      plan[group] = raised[group][to].choice;
      path.push_back(plan);
    }
    walk(path);
  }

  // Cheapest first.
  std::vector<std::vector<Raised>> raised_from(const Assignment& base) {
    std::vector<Assignment> plans{base};
    std::vector<std::vector<Raised>> raised(base.size());
    for (size_t g = 0; g < base.size(); ++g) {
      const std::vector<double>& save = saved()[g];
      for (int c = 1; c < static_cast<int>(save.size()); ++c)  // EXL3 has no float to go back to
        if (save[c] < save[base[g]]) raised[g].push_back({c, 0, save[base[g]] - save[c]});
      std::ranges::stable_sort(raised[g], {}, &Raised::cost);
      for (const Raised& r : raised[g]) (plans.emplace_back(base))[g] = r.choice;
    }
    require_limit(plans.size() + 1);  // and a step
    const std::vector<double> found = losses(plans);
    size_t at = 1;
    for (auto& group : raised)
      for (Raised& r : group) r.loss = found[at++] - found[0];
    return raised;
  }

  // As there: large gains count for less than their share, losses in full.
  static double weighed(double change) {
    constexpr double kPower = 0.69;
    return change > 0 ? change : -std::pow(-change, kPower);
  }
};

}  // namespace

std::unique_ptr<Strategy> make_greedy_bits(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<GreedyBits>(space, options);
}

}  // namespace seqto
