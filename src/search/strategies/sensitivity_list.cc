#include <algorithm>

#include "search/strategies/replay.h"
#include "search/strategies/strategies.h"

namespace seqto {
namespace {

using namespace internal;

class SensitivityList : public Replay {
 public:
  using Replay::Replay;

 private:
  struct Flip {
    size_t group;
    int choice;
    double loss;
  };

  void search() override {
    const ChoiceTable alone = one_in();
    std::vector<Flip> list;
    for (size_t g = 0; g < alone.size(); ++g)
      for (int c = 1; c < static_cast<int>(alone[g].size()); ++c) list.push_back({g, c, alone[g][c]});
    std::ranges::stable_sort(list, {}, &Flip::loss);
    std::vector<Assignment> path;
    Assignment plan = assignments_.all_float();
    for (const Flip& flip : list) {
      // A choice that saves less than the one before it in the list is no step forward; the first is one, whatever it
      // saves.
      int& now = plan[flip.group];
      if (now != 0 && saved()[flip.group][flip.choice] <= saved()[flip.group][now]) continue;
      now = flip.choice;
      path.push_back(plan);
    }
    walk(path);
  }
};

}  // namespace

std::unique_ptr<Strategy> make_sensitivity_list(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<SensitivityList>(space, options);
}

}  // namespace seqto
