// Searches that other tools use, on the same plans and samples as `chain`: what it is compared with.
#pragma once

#include <memory>

#include "seqto/search.h"

namespace seqto {

// NNCF's accuracy control: from every group at its cheapest choice, each group reverted to float32 on its own tells
// their order; they are reverted one after the other in it, and ranked anew whenever that makes the loss worse.
std::unique_ptr<Strategy> make_greedy_revert(const SearchSpace& space, const StrategyOptions& options);
// AIMET's mixed precision: every choice on its own tells its loss; the list by loss, whatever the choices save, is
// followed from float, and plans evenly along it are measured.
std::unique_ptr<Strategy> make_sensitivity_list(const SearchSpace& space, const StrategyOptions& options);
// Losses of one choice at a time taken as additive; an integer program gives the plan of least loss for each of as many
// costs as the budget allows.
std::unique_ptr<Strategy> make_ilp(const SearchSpace& space, const StrategyOptions& options);
// NSGA-II (Deb et al. 2002) from random plans: binary tournaments, uniform crossover, one mutation a plan on average.
std::unique_ptr<Strategy> make_nsga2(const SearchSpace& space, const StrategyOptions& options);
// Plans at random, from few groups changed to all.
std::unique_ptr<Strategy> make_random(const SearchSpace& space, const StrategyOptions& options);

}  // namespace seqto
