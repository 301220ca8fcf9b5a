// Room: quantization. What calibration keeps of each tensor while samples stream by.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/extremes.h"
#include "quantization/growing_histogram.h"
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
  void observe_clipped(const ClippedValues& values) override;
  // After each sample. Throws Error{kInvalidInput} when a tensor held NaN or infinity.
  void end_sample(const std::string& name);
  std::vector<TensorStatistics>& tensors() { return tensors_; }
  bool symmetric(CalibrationMethod method) const;
  // Whether the bins can lie only where the whole range is known.
  bool needs_second_pass(CalibrationMethod method) const;

  // After the last sample: every histogram of `tensors` is complete.
  void end();
  // The second pass only fills the histograms that need it.
  void count_only() { counting_only_ = true; }
  // The range of a tensor, once all samples are in.
  Range range_of(TensorStatistics& tensor) const;

 private:
  int growing_bins(CalibrationMethod method) const;
  void end_chunk(TensorStatistics& tensor) const;

  CalibrateOptions options_;
  std::vector<TensorStatistics> tensors_;
  // By the two tensors that it counts.
  std::map<std::pair<size_t, size_t>, ClippedHistogram> clipped_;
  std::vector<float> widened_;  // of float16
  bool counting_only_ = false;
};

bool needs_histogram(CalibrationMethod method);
// The number of bins with defaults filled in.
int bins_of(const CalibrateOptions& options, CalibrationMethod method);

}  // namespace seqto::internal
