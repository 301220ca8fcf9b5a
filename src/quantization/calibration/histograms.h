// Room: quantization/calibration. Histograms with given bins, as numpy makes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quantization/arithmetic/bin_loops.h"
#include "seqto/calibrate.h"

namespace seqto::internal {

// Counters in several lanes, so that a run of equal values (zeros after Relu) does not wait for its own last store.
class LaneCounts {
 public:
  static constexpr size_t kLanes = 4;
  explicit LaneCounts(size_t bins = 0) : lanes_(bins * kLanes), totals_(bins) {}
  // Adds 1 to each of the bins.
  void add(std::span<const int32_t> bins);
  // The counts so far, to be read and changed; the lanes are empty then.
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
  int32_t bin_of(float v) const;

  std::vector<float> edges_;
  LaneCounts counts_;
  FixedBins bins_;
};

}  // namespace seqto::internal
