// Room: orchestrator/tune. Models timed in turn, so that whatever slows the machine down slows all of them alike.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "seqto/runner.h"

namespace seqto::internal {

// Nanoseconds of each session, round after round while `goes_on` says so of the next; round 0 warms up and is not
// among them. `inputs` gives those of a round. Each runs twice and the second run counts, as in a program that runs one
// model alone: after two dozen others the caches hold nothing of it.
std::vector<std::vector<int64_t>> times_in_turn(std::span<const std::unique_ptr<Session>> sessions,
                                                const std::function<std::vector<Tensor>(int64_t round)>& inputs,
                                                const std::function<bool(int64_t round)>& goes_on);

}  // namespace seqto::internal
