// Room: orchestrator/tune. The study of a run: the file that trials and notes go to, and what its ending will say.
#pragma once

#include "orchestrator/tune/inputs.h"

namespace seqto::internal {

struct OpenStudy {
  Study study;
  Ending ending;  // its objectives are those that the study goes by
};

// A new one, or that of the same inputs in the folder.
OpenStudy open_study(const Inputs& inputs);
// To look at, while another run may write it. Throws Error{kInvalidInput} where it is of other inputs, or has not got
// as far as its search.
OpenStudy read_study(const Inputs& inputs);

}  // namespace seqto::internal
