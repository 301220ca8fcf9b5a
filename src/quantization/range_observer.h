// Room: quantization. What calibration keeps of each tensor while samples stream by.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/extremes.h"
#include "quantization/histograms.h"
#include "seqto/calibrate.h"
#include "seqto/runner.h"

namespace seqto::internal {

// One tensor. The fields that its method does not ask for stay empty.
struct TensorStatistics {
  std::string name;
  CalibrationMethod method = CalibrationMethod::kMinMax;
  Extremes sample, all;
  bool wants_magnitude = false;  // the smallest one, where a histogram of magnitudes begins
  float smallest_magnitude = std::numeric_limits<float>::infinity();
  std::vector<float> lows, highs;  // moving average: of the samples of this chunk
  std::optional<Range> averaged;   // moving average: of the chunks before
  std::variant<std::monostate, FixedHistogram, GrowingHistogram> histogram;
};

class RangeObserver : public Observer {
 public:
  RangeObserver(const std::vector<std::string>& tensors, const CalibrateOptions& options);

  void observe(size_t tensor, DataType type, std::span<const std::byte> values) override;
  // After each sample. Throws Error{kInvalidInput} when a tensor held NaN or infinity.
  void end_sample(const std::string& name);
  std::vector<TensorStatistics>& tensors() { return tensors_; }
  bool symmetric(CalibrationMethod method) const;

  // The second pass only fills the histograms.
  void count_only() { counting_only_ = true; }
  // The range of a tensor, once all samples are in.
  Range range_of(TensorStatistics& tensor) const;

 private:
  void end_chunk(TensorStatistics& tensor) const;

  CalibrateOptions options_;
  std::vector<TensorStatistics> tensors_;
  std::vector<float> widened_;  // of float16
  bool counting_only_ = false;
};

bool needs_histogram(CalibrationMethod method);
// The number of bins with defaults filled in.
int bins_of(const CalibrateOptions& options);

}  // namespace seqto::internal
