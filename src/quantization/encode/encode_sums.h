// Room: quantization/encode. What ONNX Runtime makes of an Add, and does not make of a Sum, where that costs time
// (bench/results/text_forms.md):
//  - of an Add and the layer normalization that reads it one SkipLayerNormalization, whose kernel takes longer;
//  - of a MatMul and the Add of its bias one Gemm, before it looks for products of codes. It takes a Gemm for one only
//    where the bias is codes, or a pair is behind: else it computes the product in float, and the weight at every run.
#pragma once

#include "quantization/encode/encoding.h"

namespace seqto::internal {

// Which Adds of floats are to be Sums, in a model whose layers are written.
Encoding encode_sums(const Model& model);

}  // namespace seqto::internal
