// Room: quantization/improve. Codes, scales and biases that were found for layers, put into what was decided about
// them.
#pragma once

#include "model/graph_view.h"
#include "quantization/encode/encoding.h"

namespace seqto::internal {

// `encoding`, of static layers or of weights that are stored, with these. `model`: the float one, which `view` is of.
// Layers that it holds in another form, type, scale or zero point than the corrections were found for stay as they are.
void correct(Encoding& encoding, const Model& model, const GraphView& view, const Corrections& corrections);

}  // namespace seqto::internal
