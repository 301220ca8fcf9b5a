// What a sample holds in place of a recurrent state.
#pragma once

#include <cstdint>

#include "seqto/model.h"

namespace seqto::internal {

// A scalar int64: one more than the mark of the sample that it follows on, any other where the states begin at zero.
Tensor state_mark(int64_t mark);
// Of all else that a sample holds, only numbers that are an input by themselves look like it.
bool may_be_state_mark(const Tensor& input);

}  // namespace seqto::internal
