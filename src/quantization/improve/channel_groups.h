// Room: quantization/improve. Which tensors can be scaled together, channel by channel, without a change of what the
// model computes.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "model/graph_view.h"
#include "quantization/calibration/channel_means.h"
#include "quantization/improve/channel_moves.h"

namespace seqto::internal {

// Tensors linked by operators through which a positive factor passes (Relu, pooling, Add of two of them ...) or that
// only move values (Concat, Split, a channel shuffle ...). There is one factor for every slot: channels that have to be
// scaled alike. Every layer that writes one of the tensors can divide its rows, every layer that reads one multiply its
// columns.
struct ChannelGroup {
  static constexpr size_t kNoSlot = std::numeric_limits<size_t>::max();  // of a channel that is always zero
  struct Member {
    ChannelTensor tensor;
    std::vector<size_t> slots;  // of each channel
  };
  struct Layer {
    size_t node = 0;
    std::vector<size_t> slots;  // of each channel that it writes or reads
  };

  size_t slots = 0;             // how many
  std::vector<Member> tensors;  // those that moved values come from, not where they are moved to
  std::vector<Layer> writers,
      readers;               // Conv, ConvTranspose, Gemm; BatchNormalization writes only
  std::optional<float> cap;  // of a Clip from 0 on, which a factor must respect
};

// The groups in graph order. Tensors that leave the model or meet an operator that no factor passes are in none.
std::vector<ChannelGroup> find_channel_groups(const Model& model, const GraphView& index, const ChannelMoves& moves);

// The factor's axis in the weight (input 1) of a reader or a writer, and whether the weight has one filter for each
// channel (a depthwise convolution).
struct WeightAxis {
  size_t axis = 0;
  bool depthwise = false;
};
std::optional<WeightAxis> written_axis(const Node& node, const Tensor& weight);
std::optional<WeightAxis> read_axis(const Node& node, const Tensor& weight);

}  // namespace seqto::internal
