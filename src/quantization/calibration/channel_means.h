// Room: quantization/calibration. Means, maxima and ranges of tensors by channel over a data set, taken inside the
// runtime.
#pragma once

#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "quantization/calibration/frontier.h"
#include "seqto/dataset.h"
#include "seqto/runner.h"

namespace seqto::internal {

// A tensor and which of its axes the channels are on.
struct ChannelTensor {
  std::string name;
  size_t rank = 4;
  size_t axis = 1;      // of the channels
  int64_t last_of = 0;  // not 0: channels in the last axis, whatever the rank
};

// The mean of every channel over all other axes and the samples. Only the part of the model that the tensors need is
// run, as far as possible by the kernels of the deployed model.
std::vector<std::vector<double>> channel_means(const Model& model, std::span<const ChannelTensor> tensors,
                                               const SampleRun& on);

// The same of a model whose layers are finished one after the other: those of `open` are not yet. One Frontier serves
// all of the calls.
std::vector<std::vector<double>> channel_means(Frontier& frontier, const Model& model,
                                               const std::unordered_set<LayerId>& open,
                                               std::span<const ChannelTensor> tensors, const SampleRun& on);

// The largest magnitude of every channel, of the graph as written.
std::vector<std::vector<float>> channel_maxima(const Model& model, std::span<const ChannelTensor> tensors,
                                               const SampleRun& on);

// What the channels hold, of the graph as written.
struct ChannelSpread {
  std::vector<double> largest;  // magnitude
  std::vector<double> squares;  // their mean
  // Six standard deviations above the mean of the samples' largest magnitudes: what other samples may come to.
  std::vector<double> reach;
};
std::vector<ChannelSpread> channel_spreads(const Model& model, std::span<const ChannelTensor> tensors,
                                           const SampleRun& on);

// How much of a signal the channels are, of the graph as written.
struct ChannelPower {
  std::vector<double> squares;  // mean of each channel
  // Of a channel over the positions of a sample: its variance, its largest magnitude; means over channels and samples.
  double variance = 0, magnitude = 0;
};
std::vector<ChannelPower> channel_powers(const Model& model, std::span<const ChannelTensor> tensors,
                                         const SampleRun& on);

// The smallest and the largest value of every channel, of the graph as written.
struct ChannelRange {
  std::vector<float> lowest, highest;
};
std::vector<ChannelRange> channel_ranges(const Model& model, std::span<const ChannelTensor> tensors,
                                         const SampleRun& on);

}  // namespace seqto::internal
