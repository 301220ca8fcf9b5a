// Room: quantization/encode. Weights that nodes turn or reshape on their way to a layer.
#pragma once

#include "seqto/model.h"

namespace seqto::internal {

// Makes initializers of what Identity, Transpose, Reshape, Squeeze, Unsqueeze, Slice, Split and Concat make of float
// ones, so that layers read their weights and biases from initializers; returns how many such nodes went. Does nothing
// where no layer reads one and none is behind an Identity: PyTorch's exporters leave a weight behind a Transpose, those
// of an attention behind a Split, equal constants behind an Identity and an LSTM's gates behind Slices and a Concat,
// tf2onnx the kernel of a Conv1D behind an Unsqueeze.
int fold_weights(Model& model);

}  // namespace seqto::internal
