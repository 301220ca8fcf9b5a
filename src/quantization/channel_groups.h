// Room: quantization. Which tensors can be scaled together, channel by channel, without a change of what the model
// computes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quantization/channel_means.h"
#include "quantization/marks.h"

namespace seqto::internal {

// Tensors linked by operators through which a positive factor passes (Relu, pooling, Add of two of them ...). Every
// layer that writes one of them can divide its rows, every layer that reads one multiply its columns.
struct ChannelGroup {
  std::vector<ChannelTensor> tensors;
  std::vector<size_t> writers,
      readers;               // nodes: Conv, ConvTranspose, Gemm; BatchNormalization, LayerNormalization write only
  std::optional<float> cap;  // of a Clip from 0 on, which a factor must respect
};

// The groups in graph order. Tensors that leave the model or meet an operator that no factor passes are in none.
std::vector<ChannelGroup> find_channel_groups(const Model& model, const GraphIndex& index);

// The factor's axis in the weight (input 1) of a reader or a writer, and whether the weight has one filter for each
// channel (a depthwise convolution).
struct WeightAxis {
  size_t axis = 0;
  bool depthwise = false;
};
std::optional<WeightAxis> written_axis(const Node& node, const Tensor& weight);
std::optional<WeightAxis> read_axis(const Node& node, const Tensor& weight);

}  // namespace seqto::internal
