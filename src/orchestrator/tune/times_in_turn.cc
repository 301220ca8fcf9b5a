#include "orchestrator/tune/times_in_turn.h"

namespace seqto::internal {

std::vector<std::vector<int64_t>> times_in_turn(std::span<const std::unique_ptr<Session>> sessions,
                                                const std::function<std::vector<Tensor>(int64_t round)>& inputs,
                                                const std::function<bool(int64_t round)>& goes_on) {
  std::vector<std::vector<int64_t>> times(sessions.size());
  for (int64_t round = 0; goes_on(round); ++round) {
    const std::vector<Tensor> given = inputs(round);
    for (size_t i = 0; i < sessions.size(); ++i) {
      const int64_t ns = sessions[i]->time(given, 2).back();
      if (round > 0) times[i].push_back(ns);
    }
  }
  return times;
}

}  // namespace seqto::internal
