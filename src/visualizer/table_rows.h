// Which points of a study a short table shows.
#pragma once

#include <string>
#include <vector>

#include "seqto/report.h"

namespace seqto::internal {

struct ShownPoint {
  const SummaryPoint* point = nullptr;
  int folded = 0;  // larger points of the front that the samples cannot tell from it, and that are no faster
};

// Changes more than a third of the answers.
bool is_ruined(const SummaryPoint& point, const std::string& loss);

// At most so many: float and the fully quantized model, the selected point, the top three, and as many of the rest of
// the front as there is room for, evenly spread; by size. Points that change more than a third of the answers, or that
// are neither smaller nor faster than float, are left out, but for the selected one.
std::vector<ShownPoint> shown_points(const Summary& summary, size_t most = 12);

}  // namespace seqto::internal
