// Room: quantization/encode. The runtime takes a QuantizeLinear past a MaxPool and what moves values to where they come
// from. Behind a float layer that gives a MaxPool of bytes in the layout that it has no fast kernel for: 4.9 ms instead
// of 0.15 in squeezenet11. It does not take it past a Clip. One with the bounds of the codes changes nothing, and the
// runtime drops it later.
#pragma once

#include "quantization/encode/encoding.h"

namespace seqto::internal {

// Keeps the runtime from making an integer MaxPool of one that was left in float (D55), in a model whose static layers
// are written.
Encoding encode_clips(const Model& model);

}  // namespace seqto::internal
