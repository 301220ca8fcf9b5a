#include "quantization/calibration/histograms.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace seqto::internal {

void LaneCounts::add(std::span<const int32_t> bins) {
  constexpr uint64_t kMost = uint64_t{1} << 32;  // then a lane might overflow
  if (in_lanes_ + bins.size() >= kMost) totals();
  in_lanes_ += bins.size();
  uint32_t* lanes = lanes_.data();
  const size_t stride = totals_.size();
  size_t i = 0;
  for (; i + kLanes <= bins.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) ++lanes[lane * stride + static_cast<size_t>(bins[i + lane])];
  for (; i < bins.size(); ++i) ++lanes[static_cast<size_t>(bins[i])];
}

std::vector<int64_t>& LaneCounts::totals() {
  if (in_lanes_ == 0) return totals_;
  for (size_t lane = 0; lane < kLanes; ++lane)
    for (size_t b = 0; b < totals_.size(); ++b) totals_[b] += lanes_[lane * totals_.size() + b];
  std::fill(lanes_.begin(), lanes_.end(), 0);
  in_lanes_ = 0;
  return totals_;
}

std::vector<float> uniform_edges(float first, float last, int bins) {
  if (first == last) {
    first -= 0.5f;
    last += 0.5f;
  }
  std::vector<float> edges(static_cast<size_t>(bins) + 1);
  float step = (last - first) / static_cast<float>(bins);
  for (size_t i = 0; i < edges.size(); ++i) {
    float offset = static_cast<float>(i) * step;
    edges[i] = offset + first;
  }
  edges.back() = last;
  return edges;
}

FixedHistogram::FixedHistogram(float first, float last, int bins, bool magnitudes)
    : edges_(uniform_edges(first, last, bins)), counts_(static_cast<size_t>(bins)) {
  bins_.magnitudes = magnitudes;
  bins_.first = edges_.front();
  bins_.bins_per_unit = static_cast<float>(bins) / (edges_.back() - bins_.first);
  bins_.lowest = 0.5f;
  bins_.highest = static_cast<float>(bins - 1) + 0.5f;
  bins_.zero = static_cast<float>(bin_of(0)) + 0.5f;
  // Far enough from a whole number for the rounding of the quotient and that of the edges.
  bins_.doubt = 6e-7f * static_cast<float>(bins);
}

void FixedHistogram::add(std::span<const float> values) {
  // Few enough that most blocks hold no value in doubt.
  constexpr size_t kBlock = 64;
  std::array<int32_t, kBlock> bins;
  std::array<float, kBlock> beyond;
  const BinFunctions& functions = bin_functions();
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, values.size() - begin);
    if (functions.fixed(values.data() + begin, count, bins_, bins.data(), beyond.data())) {
      for (size_t i = 0; i < count; ++i) {
        if (beyond[i] >= bins_.doubt && beyond[i] <= 1 - bins_.doubt) continue;
        float v = values[begin + i];
        bins[i] = bin_of(bins_.magnitudes ? std::abs(v) : v);
      }
    }
    counts_.add({bins.data(), count});
  }
}

// The last bin whose lower edge is at most v.
int32_t FixedHistogram::bin_of(float v) const {
  auto above = std::upper_bound(edges_.begin() + 1, edges_.end() - 1, v);
  return static_cast<int32_t>(above - edges_.begin()) - 1;
}

}  // namespace seqto::internal
