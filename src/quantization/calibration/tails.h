// Room: quantization/calibration. The largest and smallest values of a tensor, all that an exact percentile asks for.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "quantization/calibration/histograms.h"

namespace seqto::internal {

// The `most` largest of all values; of the others only that they are not above floor().
class LargestValues {
 public:
  explicit LargestValues(size_t most) : most_(most) {}
  // Values above floor(); others may be given and are left out.
  void add(float value) {
    if (value > floor_) take(value);
  }
  float floor() const { return floor_; }
  const std::vector<float>& values() const { return values_; }

 private:
  void take(float value);

  size_t most_;
  std::vector<float> values_;  // up to twice as many, before the smaller half is dropped
  float floor_ = -std::numeric_limits<float>::infinity();
};

// What percentile_range() needs of numpy's histogram without knowing, while values come, where its bins will lie: the
// counts of the outer bins, in which the shares are reached. Memory is a share of the values, see wanted().
class Tails {
 public:
  // As many values on a side as decide `percentile` of `count` values, with room for a quarter more; all of few.
  static size_t wanted(int64_t count, double percentile, bool symmetric);
  // `symmetric`: of magnitudes, which have one tail.
  Tails(size_t values, bool symmetric) : symmetric_(symmetric), high_(values), low_(symmetric ? 0 : values) {}

  void add(std::span<const float> values);

  // Fills an empty histogram; counts that are not known are put where they change no share that decides. Nothing where
  // one is so near to the percentile that its rounding decides, or too few values were kept.
  std::optional<Histogram> decided(FixedHistogram empty, double percentile) const;

 private:
  bool symmetric_;
  LargestValues high_, low_;  // of magnitudes; else of values, and of negated ones
  int64_t count_ = 0;
};

}  // namespace seqto::internal
