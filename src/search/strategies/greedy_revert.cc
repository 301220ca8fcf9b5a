#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "search/strategies/replay.h"
#include "search/strategies/strategies.h"

namespace seqto {
namespace {

using namespace internal;

class GreedyRevert : public Replay {
 public:
  using Replay::Replay;

 private:
  // As NNCF's accuracy-aware loop goes: the group at the end of the list returns to float. A return that makes it worse
  // is taken back and the list ranked anew, but for the first one after a ranking, which stays.
  void search() override {
    Assignment plan;  // everything quantized, by the choices that save most, even where that is less than nothing
    std::vector<size_t> list;
    for (const auto& row : saved()) {
      plan.push_back(static_cast<int>(std::max_element(row.begin() + 1, row.end()) - row.begin()));
      list.insert(list.begin(), plan.size() - 1);
    }
    require_limit(1 + list.size());
    double before = loss(plan);
    rank(list, plan);
    bool ranked = true;
    while (!list.empty() && left() > 0) {
      const size_t group = list.back();
      const int choice = std::exchange(plan[group], 0);
      list.pop_back();
      const double now = loss(plan);
      const bool stays = now <= before || ranked;
      before = now;  // also of what is taken back
      ranked = false;
      if (stays) continue;
      plan[group] = choice;
      list.push_back(group);
      if (options_.evaluations > 0 && left() < std::ssize(list)) return;
      rank(list, plan);
      ranked = true;
    }
  }

  // Last the group whose return alone leaves the least loss; of equal ones that which was last before.
  void rank(std::vector<size_t>& list, const Assignment& plan) {
    std::vector<Assignment> reverted;
    for (size_t group : list) (reverted.emplace_back(plan))[group] = 0;
    const std::vector<double> found = losses(reverted);
    std::vector<size_t> places(list.size());
    std::iota(places.begin(), places.end(), 0);
    std::ranges::stable_sort(places, std::greater(), [&](size_t i) { return found[i]; });
    for (size_t& place : places) place = list[place];
    list = std::move(places);
  }
};

}  // namespace

std::unique_ptr<Strategy> make_greedy_revert(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<GreedyRevert>(space, options);
}

}  // namespace seqto
