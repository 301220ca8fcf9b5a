// Plans of least loss for what they cost, where losses and costs add up: the multiple-choice knapsack problem.
#pragma once

#include <span>
#include <vector>

#include "search/strategies/assignments.h"

namespace seqto::internal {

// The plans of least loss for their cost, from least cost to least loss, by the greedy solution of the problem's
// relaxation (Sinha and Zoltners 1979): each group's lower convex hull of (cost, loss), all their steps in the order of
// loss saved per cost. Each plan is optimal for its own cost.
std::vector<Assignment> chain_of(const ChoiceTable& loss, const ChoiceTable& cost);

// Plans of least loss among those that save at least these shares of what can be saved. By dynamic programming over
// costs in steps of 1 / 2,000 of that, to which each choice is rounded; choices of infinite loss are never taken.
std::vector<Assignment> least_losses(const ChoiceTable& loss, const ChoiceTable& cost, std::span<const double> shares);

// `count` shares, evenly from there to 1; the first is left out.
std::vector<double> shares_from(double least, int64_t count);

}  // namespace seqto::internal
