// Room: quantization/calibration. Histograms of activations whose bins grow while values come.
#pragma once

#include "quantization/calibration/histograms.h"

namespace seqto::internal {

// Bins over (-T, T), T a power of two: when a larger value comes, T doubles and neighbours are merged, without loss.
// So the counts do not depend on the order of the values.
class GrowingBins {
 public:
  // At least `bins` of them lie between -m and m, m the largest magnitude seen.
  explicit GrowingBins(int bins);

  size_t size() const { return 2 * static_cast<size_t>(half_); }
  // Whether values up to `magnitude` need a larger T.
  bool must_grow(float magnitude) const { return exponent_for(magnitude) > exponent_; }
  // Merges the counts until they fit.
  void grow(float magnitude, std::span<int64_t> counts) { grow_to(exponent_for(magnitude), counts); }
  // Adds what another one counted.
  void merge(const GrowingBins& other, std::span<const int64_t> others, std::span<int64_t> counts);
  void add(float value, int64_t count, std::span<int64_t> counts);
  EvenBins even_bins() const;

  // The bins between the first and the last that hold anything.
  Histogram histogram(const std::vector<int64_t>& counts) const;
  // Of |v|.
  Histogram magnitudes(const std::vector<int64_t>& counts) const;

 private:
  static constexpr int kUnset = -1000;  // only zeros so far: T = 0
  static int exponent_for(float magnitude);
  void grow_to(int exponent, std::span<int64_t> counts);
  Histogram between(size_t begin, size_t end, const std::vector<int64_t>& counts) const;

  int half_;               // bins on each side of 0, a power of two
  int exponent_ = kUnset;  // T = 2^exponent_
};

class GrowingHistogram {
 public:
  explicit GrowingHistogram(int bins) : bins_(bins), counts_(bins_.size()) {}
  // `magnitude`: the largest |v| of the values.
  void add(std::span<const float> values, float magnitude);
  Histogram histogram() { return bins_.histogram(counts_.totals()); }
  Histogram magnitudes() { return bins_.magnitudes(counts_.totals()); }

 private:
  friend class ClippedHistogram;
  GrowingBins bins_;
  LaneCounts counts_;
};

// A tensor and what Relu or Clip makes of it, each value counted once: those between the bounds are the same in both,
// the others stand on a bound in the second.
class ClippedHistogram {
 public:
  // The bounds enclose 0 (either may be 0 or infinite).
  ClippedHistogram(int bins, float lowest, float highest);
  // `magnitude`, `clipped_magnitude`: the largest |v| of the values, and of the clipped ones.
  void add(std::span<const float> values, float magnitude, float clipped_magnitude);
  // What the two histograms would hold that had been shown the tensors themselves.
  void add_to(GrowingHistogram& before, GrowingHistogram& after);

 private:
  float lowest_, highest_;
  GrowingBins inner_, outer_;
  LaneCounts counts_;  // of the inner bins, then of the outer ones
};

}  // namespace seqto::internal
