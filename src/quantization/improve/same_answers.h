// Room: quantization/improve. How far a model that was made of another answers otherwise.
#pragma once

#include <cstdint>
#include <optional>

#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto::internal {

class SameAnswers {
 public:
  // Both outlive this. Samples: evenly spaced ones.
  SameAnswers(const Model& original, const SampleRun& on, int64_t max_samples = 1)
      : original_(original), on_(on), max_samples_(max_samples) {}

  // By how much the answers differ from the original's: squared difference over squares, of the float output where that
  // is largest; infinity where they hold NaN. Nothing where rounding alone may change them: a model that chooses by
  // comparing, or draws. Cost: both models are loaded and run on the samples; nothing is kept.
  std::optional<double> difference(const Model& other) const;
  // More than rounding of float32 explains.
  static constexpr double kOther = 1e-4;

 private:
  const Model& original_;
  const SampleRun& on_;
  int64_t max_samples_;
};

}  // namespace seqto::internal
