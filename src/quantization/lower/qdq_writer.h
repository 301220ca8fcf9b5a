// Room: quantization/lower. Static layers in QDQ form as a model; decides nothing.
#pragma once

#include "model/graph_view.h"
#include "quantization/encode/encoding.h"

namespace seqto::internal {

// `options`: those that the encoding was made with, which has a graph.
Model write_qdq(const Model& model, const GraphView& view, const Encoding& encoding, const QuantizeOptions& options);

}  // namespace seqto::internal
