// Room: search/strategies. The rows of make_strategy (search.h).
#pragma once

#include <memory>

#include "search/strategies/assignments.h"

namespace seqto {

std::unique_ptr<Strategy> make_chain(const SearchSpace& space, const StrategyOptions& options);
// The published procedure: exclude one more entry of the error analysis' order a trial.
std::unique_ptr<Strategy> make_incremental(const SearchSpace& space, const StrategyOptions& options);

// --- What other tools do, on the same plans and samples as `chain`, which is compared with it.
// NNCF's accuracy control: from every group at its cheapest choice, each group reverted to float32 on its own tells
// their order; they are reverted one after the other in it, and ranked anew whenever that makes the loss worse.
std::unique_ptr<Strategy> make_greedy_revert(const SearchSpace& space, const StrategyOptions& options);
// AIMET's mixed precision: every choice on its own tells its loss; the list by loss, whatever the choices save, is
// followed from float, and plans evenly along it are measured.
std::unique_ptr<Strategy> make_sensitivity_list(const SearchSpace& space, const StrategyOptions& options);
// Losses of one choice at a time taken as additive, as model compression toolkits do it with an integer program; here a
// dynamic program gives the plan of least loss for each of as many costs as the budget allows, with latency among the
// objectives for mixtures of the costs.
std::unique_ptr<Strategy> make_dynamic_program(const SearchSpace& space, const StrategyOptions& options);
// NSGA-II (Deb et al. 2002) from random plans: binary tournaments, uniform crossover, one mutation a plan on average.
std::unique_ptr<Strategy> make_nsga2(const SearchSpace& space, const StrategyOptions& options);
// Plans at random, from few groups changed to all.
std::unique_ptr<Strategy> make_random(const SearchSpace& space, const StrategyOptions& options);

namespace internal {

// Each with a share of its own, 0 to 1, of the groups that are not float32; those take each of their choices alike.
std::vector<Assignment> random_plans(const Assignments& assignments, size_t count, uint64_t seed);

}  // namespace internal
}  // namespace seqto
