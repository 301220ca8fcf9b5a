// Room: quantization. Histograms of activations: with given bins, and with bins that grow.
#pragma once

#include <span>
#include <vector>

#include "seqto/calibrate.h"

namespace seqto::internal {

// Counters in several lanes, so that a run of equal values (zeros after Relu) does not wait for its own last store.
class LaneCounts {
 public:
  static constexpr size_t kLanes = 4;
  explicit LaneCounts(size_t bins = 0) : lanes_(bins * kLanes), totals_(bins) {}
  // Adds 1 to each of the bins.
  void add(std::span<const int32_t> bins);
  // The counts so far; the lanes are empty then.
  std::vector<int64_t>& totals();

 private:
  std::vector<uint32_t> lanes_;
  std::vector<int64_t> totals_;
  uint64_t in_lanes_ = 0;
};

// numpy's edges of `bins` equal bins over [first, last] in float32: two separately rounded operations an edge.
std::vector<float> uniform_edges(float first, float last, int bins);

// Counts into given bins: value v falls into the last bin whose lower edge is at most v. numpy's rule, to the bit.
class FixedHistogram {
 public:
  // `magnitudes`: counts |v| instead of v.
  FixedHistogram(float first, float last, int bins, bool magnitudes);
  void add(std::span<const float> values);
  Histogram histogram() { return {counts_.totals(), edges_}; }

 private:
  template <bool kMagnitudes>
  void count(std::span<const float> values);
  int32_t bin_of(float v) const;

  std::vector<float> edges_;
  LaneCounts counts_;
  float first_ = 0, bins_per_unit_ = 0;
  bool magnitudes_ = false;
};

// Bins over (-T, T), T a power of two: when a larger value comes, T doubles and neighbours are merged, without loss.
// So the counts do not depend on the order of the values.
class GrowingHistogram {
 public:
  // At least `bins` of its bins lie between -m and m, m the largest magnitude seen.
  explicit GrowingHistogram(int bins);
  // `magnitude`: the largest |v| of the values.
  void add(std::span<const float> values, float magnitude);
  // The bins between the first and the last that hold anything.
  Histogram histogram();
  // Of |v|.
  Histogram magnitudes();

 private:
  void grow(int exponent);
  Histogram between(size_t begin, size_t end, const std::vector<int64_t>& counts) const;

  static constexpr int kUnset = -1000;
  int half_;               // bins on each side of 0, a power of two
  int exponent_ = kUnset;  // T = 2^exponent_
  int64_t zeros_ = 0;      // values seen while all were 0
  LaneCounts counts_;
};

}  // namespace seqto::internal
