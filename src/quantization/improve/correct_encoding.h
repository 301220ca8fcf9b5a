// Room: quantization/improve. Codes, scales and biases that were found for layers, put into what was decided about
// them.
#pragma once

#include "model/graph_view.h"
#include "quantization/encode/encoding.h"

namespace seqto::internal {

// What an encoding was made of.
struct Encoded {
  const Model& model;  // the float one
  const GraphView& view;
  const QuantizeOptions& options;
};
// `encoding`, of static layers or of weights that are stored, with these.
// Layers that it holds in another form, type, scale or zero point than the corrections were found for stay as they are.
void correct(Encoding& encoding, const Encoded& of, const Corrections& corrections);

}  // namespace seqto::internal
