// Room: quantization/lower. What a plan asks for beside static QDQ; one rewriting after the other, each of the model
// that its encoding was made for. They decide nothing.
#pragma once

#include "quantization/encode/encoding.h"

namespace seqto::internal {

// What encode_operators() decided: a model's graph, or a body's.
Model write_operators(Model model, const Encoding& encoding);
Graph write_operator_graph(Graph graph, const Encoding& encoding);
// What encode_clips() decided.
Model write_clips(Model model, const Encoding& encoding);
// What encode_sums() decided.
Model write_sums(Model model, const Encoding& encoding);
// What encode_weights() decided.
Model write_weights(const Model& model, const Encoding& encoding);
// Values of biases that stay in float, whatever the form around them.
void write_float_biases(Graph& graph, const Encoding& encoding);
// What encode_halves() decided.
Model write_float16(const Model& model, const Encoding& encoding);

}  // namespace seqto::internal
