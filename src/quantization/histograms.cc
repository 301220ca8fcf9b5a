#include "quantization/histograms.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace seqto::internal {
namespace {

// Values are taken in blocks: bin numbers by a loop that vectorises, then the counting.
constexpr size_t kBlock = 256;

}  // namespace

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
    : edges_(uniform_edges(first, last, bins)), counts_(static_cast<size_t>(bins)), magnitudes_(magnitudes) {
  first_ = edges_.front();
  bins_per_unit_ = static_cast<float>(bins) / (edges_.back() - first_);
}

void FixedHistogram::add(std::span<const float> values) {
  if (magnitudes_) count<true>(values);
  else count<false>(values);
}

template <bool kMagnitudes>
void FixedHistogram::count(std::span<const float> values) {
  std::array<int32_t, kBlock> bins;
  std::array<float, kBlock> taken;
  const int32_t last = static_cast<int32_t>(edges_.size()) - 2;
  const float first = first_, scale = bins_per_unit_;
  // Half a bin from the outer edges is safe: what lies beyond them is the edge itself. So is 0, which is common (Relu)
  // and lies on an edge. Elsewhere the quotient decides where it is far enough from a whole number for its rounding
  // and that of the edges.
  const float lowest = 0.5f, highest = static_cast<float>(last) + 0.5f, doubt = 6e-7f * static_cast<float>(last + 1);
  const float zero = static_cast<float>(bin_of(0)) + 0.5f;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, values.size() - begin);
    int32_t doubtful = 0;
    for (size_t i = 0; i < count; ++i) {
      float v = kMagnitudes ? std::abs(values[begin + i]) : values[begin + i];
      float position = (v - first) * scale;
      position = position < lowest ? lowest : position;
      position = position > highest ? highest : position;
      position = v == 0 ? zero : position;
      int32_t bin = static_cast<int32_t>(position);
      float beyond = position - static_cast<float>(bin);
      doubtful |= static_cast<int32_t>(beyond < doubt) | static_cast<int32_t>(beyond > 1 - doubt);
      bins[i] = bin;
      taken[i] = beyond;
    }
    if (doubtful) {
      for (size_t i = 0; i < count; ++i) {
        if (taken[i] >= doubt && taken[i] <= 1 - doubt) continue;
        float v = values[begin + i];
        bins[i] = bin_of(kMagnitudes ? std::abs(v) : v);
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

GrowingHistogram::GrowingHistogram(int bins)
    : half_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(bins, 4))))),
      counts_(2 * static_cast<size_t>(half_)) {}

void GrowingHistogram::add(std::span<const float> values, float magnitude) {
  if (values.empty()) return;
  int exponent = kUnset;
  if (magnitude > 0) {
    std::frexp(magnitude, &exponent);     // magnitude < 2^exponent
    exponent = std::max(exponent, -100);  // so that the factor below stays finite
  }
  if (exponent > exponent_) grow(exponent);
  if (exponent_ == kUnset) {
    zeros_ += static_cast<int64_t>(values.size());
    return;
  }
  const float scale = std::ldexp(static_cast<float>(half_), -exponent_);  // a power of two: v * scale is exact
  const int32_t half = half_;
  std::array<int32_t, kBlock> bins;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, values.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      float position = values[begin + i] * scale;
      int32_t bin = static_cast<int32_t>(position);
      bin -= static_cast<float>(bin) > position;  // towards minus infinity
      bins[i] = bin + half;
    }
    counts_.add({bins.data(), count});
  }
}

void GrowingHistogram::grow(int exponent) {
  const size_t half = static_cast<size_t>(half_);
  if (exponent_ == kUnset) {
    counts_.totals()[half] += zeros_;
    zeros_ = 0;
    exponent_ = exponent;
  }
  for (; exponent_ < exponent; ++exponent_) {
    std::vector<int64_t>& counts = counts_.totals();
    std::vector<int64_t> merged(counts.size());
    for (size_t i = 0; i < counts.size(); ++i) merged[half / 2 + i / 2] += counts[i];
    counts = std::move(merged);
  }
}

Histogram GrowingHistogram::between(size_t begin, size_t end, const std::vector<int64_t>& counts) const {
  Histogram result;
  const int shift = exponent_ - std::countr_zero(static_cast<unsigned>(half_));
  for (size_t i = begin; i <= end; ++i)
    result.edges.push_back(std::ldexp(static_cast<float>(static_cast<int64_t>(i) - half_), shift));
  result.counts.assign(counts.begin() + static_cast<std::ptrdiff_t>(begin),
                       counts.begin() + static_cast<std::ptrdiff_t>(end));
  return result;
}

Histogram GrowingHistogram::histogram() {
  if (exponent_ == kUnset) return {{zeros_}, {0, 0}};
  const std::vector<int64_t>& counts = counts_.totals();
  size_t begin = 0, end = counts.size();
  while (begin < end && counts[begin] == 0) ++begin;
  while (end > begin && counts[end - 1] == 0) --end;
  return between(begin, end, counts);
}

Histogram GrowingHistogram::magnitudes() {
  if (exponent_ == kUnset) return {{zeros_}, {0, 0}};
  const size_t half = static_cast<size_t>(half_);
  const std::vector<int64_t>& counts = counts_.totals();
  std::vector<int64_t> folded(counts.size());
  for (size_t i = 0; i < half; ++i) folded[half + i] = counts[half + i] + counts[half - 1 - i];
  size_t end = folded.size();
  while (end > half + 1 && folded[end - 1] == 0) --end;
  return between(half, end, folded);
}

}  // namespace seqto::internal
