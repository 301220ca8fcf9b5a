// The speed of a decoder's next token.
#pragma once

#include "seqto/metrics.h"

namespace seqto::internal {

// Beside float's. A trial times it on a few steps at a moment of its own, and that tells nothing: kSame unless both
// were timed in turn.
inline Speed decode_speed(const Latency& latency, const Latency& of_float) {
  return latency.over_float ? speed_of(latency, of_float) : Speed::kSame;
}

}  // namespace seqto::internal
