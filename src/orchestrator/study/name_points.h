// Wing: study. What people call the points of a study; ids are for files.
#pragma once

#include "seqto/report.h"

namespace seqto::internal {

// Sets the name of every point: "float", "int8" (id full), "ort-int8" (id published), 1, 2, 3 ... along the front of
// the first device from the smallest file up, then along those of the others. The rest has the first digits of its id.
void name_points(Summary& summary);

}  // namespace seqto::internal
