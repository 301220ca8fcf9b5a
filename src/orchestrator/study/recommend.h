// Wing: study. Which point of a front to use: the cheapest that is as good as the float model.
#pragma once

#include "seqto/report.h"

namespace seqto::internal {

// Sets selected, judged_by and as_good_as_float of a front with points, by its tolerance. The drops of task metrics
// are there. Points slower than float are passed over while there are others as good, where latency is an objective.
// Where none is as good, of those that need the least tolerance the cheapest with next to no loss, else that with the
// least loss.
void recommend(DeviceFront& d, const std::vector<std::string>& objectives);

}  // namespace seqto::internal
