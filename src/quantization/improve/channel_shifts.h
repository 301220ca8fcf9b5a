// Room: quantization/improve. Which tensors' channels can be moved, each by a number of its own, without a change of
// what the model computes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "model/graph_view.h"
#include "quantization/calibration/channel_means.h"

namespace seqto::internal {

// A tensor that moves by the sum of what the layers move that end in it: one where a layer writes it, several behind
// Adds.
struct MovableTensor {
  ChannelTensor tensor;
  int64_t channels = 0;
  std::map<size_t, int> writers;  // nodes; how often each enters the sum
};

struct ChannelShifts {
  std::vector<MovableTensor> tensors;  // in graph order
  // Conv without padding and Gemm, that read one of them: their biases take the move back.
  std::map<size_t, std::string> readers;
};
// Every writer of a tensor is a Conv, ConvTranspose, Gemm or BatchNormalization with constant bias (or none), every
// operator between it and the readers lets a constant through: Add, Identity, MaxPool, averages ... No tensor leaves
// the model.
ChannelShifts find_channel_shifts(const Model& model, const GraphView& index);

}  // namespace seqto::internal
