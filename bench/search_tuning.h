// The constants of a search by name, so that search.cc can take each away.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "seqto/search.h"

namespace seqto {

struct TuningConstant {
  std::string_view name;
  double SearchTuning::* value;
  std::array<double, 2> others;  // what `./dev bench search --ablate` sets it to
  bool of_latencies = false;     // of what predicts them
};

inline const std::vector<TuningConstant>& tuning_constants() {
  using T = SearchTuning;
  static const std::vector<TuningConstant> kConstants{
      {"moves", &T::moves, {1, 8}},
      {"batch", &T::batch, {2, 24}},
      {"mixtures", &T::mixtures, {2, 9}},
      {"harmless", &T::harmless, {0, 0.01}},
      {"chain_end", &T::chain_end, {0, 0.03}},
      {"negligible", &T::negligible, {0, 1e-3}},
      {"race_samples", &T::race_samples, {4, 32}},
      {"race_seen", &T::race_seen, {0.1, 1}},
      {"timed_mixed", &T::timed_mixed, {0, 10}, true},
      {"latency_prior", &T::latency_prior, {0.01, 2}, true},
      {"latency_group", &T::latency_group, {0.01, 1}, true},
      {"latency_noise", &T::latency_noise, {0.003, 0.08}, true},
  };
  return kConstants;
}

}  // namespace seqto
