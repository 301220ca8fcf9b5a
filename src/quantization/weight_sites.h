// Room: quantization. Which inputs of a node are weights, and which of their elements belong together.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// A weight seen as [outer, before, channels, after]: one scale for each pair of outer and channel, and the elements
// `before` and `after` are those that a sum of the layer runs over.
struct Grouping {
  int64_t outer = 1, before = 1, channels = 1, after = 1;
  bool operator==(const Grouping&) const = default;
};

struct WeightSite {
  size_t input = 0;
  Grouping grouping;
};

using ConstantOf = std::function<const Tensor*(const std::string&)>;

// The float constants that this node reads as weights: of Conv, ConvTranspose, Gemm, MatMul, Gather, RNN, GRU, LSTM,
// Attention and EmbedLayerNormalization; biases are none.
std::vector<WeightSite> weight_sites(const Node& node, const ConstantOf& constant);

}  // namespace seqto::internal
