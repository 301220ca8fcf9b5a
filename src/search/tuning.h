// Room: search. The constants of a search by name, so that a benchmark can take each away.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "seqto/search.h"

namespace seqto::internal {

struct TuningConstant {
  std::string_view name;
  double SearchTuning::* value;
  std::array<double, 2> others;  // what `./dev bench search --ablate` sets it to
  bool of_latencies = false;     // of what predicts them
};
const std::vector<TuningConstant>& tuning_constants();

}  // namespace seqto::internal
