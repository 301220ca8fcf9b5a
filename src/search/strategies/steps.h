// From one plan to the next.
#pragma once

#include <vector>

#include "search/strategies/loss_model.h"

namespace seqto::internal {

// Every other choice of every group; with `together` also all that share a tensor,
// as long as they are not more than it says, to one scheme or float32.
std::vector<Step> steps_from(Assignments& assignments, const Assignment& assignment, const SearchTuning* together);
Assignment after(Assignment assignment, const Step& step);

// Plans from the least cost to the least loss, each a step from the one before: the one that saves most of the loss for
// what it costs. Where losses add up that is chain_of; what a shared tensor loses, only a step of several groups gains
// back.
std::vector<Assignment> descent(const LossModel& losses, Assignments& assignments, const ChoiceTable& cost);

}  // namespace seqto::internal
