// Room: metrics/loss. Losses of samples together with those of their rows.
#pragma once

#include <optional>
#include <vector>

#include "seqto/metrics.h"

namespace seqto::internal {

struct ComparedRows {
  std::vector<Losses> samples;  // as compare_each() has them
  std::optional<RowLosses> rows;
  std::optional<WorstOutput> worst_output;
};
ComparedRows compare_rows(const Outputs& reference, const Outputs& candidate);

}  // namespace seqto::internal
