// Room: quantization/plan. Which inputs of a node are weights, and which of their elements belong together.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
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
  Grouping grouping;        // of the constant as it lies in the file
  std::string weight = {};  // the constant's name
  bool transposed = false;  // the layer reads it through a Transpose
};

using ConstantOf = std::function<const Tensor*(const std::string&)>;

// Outputs of Transpose nodes that turn a constant float matrix, and the matrix; none that a graph output shows. The
// head of a language model reads its embedding so.
using TransposedWeights = std::unordered_map<std::string, std::string>;
TransposedWeights transposed_weights(const Model& model, const ConstantOf& constant);

// The float constants that this node reads as weights: of Conv, ConvTranspose, Gemm, MatMul, Gather, RNN, GRU, LSTM,
// Attention and EmbedLayerNormalization; biases are none. MatMul and Gemm may read them through one of `transposed`.
std::vector<WeightSite> weight_sites(const Node& node, const ConstantOf& constant,
                                     const TransposedWeights& transposed = {});

}  // namespace seqto::internal
