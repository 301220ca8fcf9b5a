// Room: quantization/calibration. What calibration keeps of each tensor while samples stream by.
#pragma once

#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/extremes.h"
#include "quantization/calibration/growing_histogram.h"
#include "quantization/calibration/tails.h"
#include "seqto/calibrate.h"
#include "seqto/runner.h"

namespace seqto::internal {

// One tensor. The fields that its method does not ask for stay empty.
struct TensorStatistics {
  std::string name;
  CalibrationMethod method = CalibrationMethod::kMinMax;
  Extremes all;
  bool begun = false;            // values came
  bool is_end = false;           // a graph's input or output, which may not hold NaN
  bool unbounded = false;        // held NaN, infinity or the largest float: its bounds are kUnbounded
  std::string first_nan;         // the first sample that it held NaN for
  bool wants_magnitude = false;  // the smallest one, where a histogram of magnitudes begins
  float smallest_magnitude = std::numeric_limits<float>::infinity();
  std::vector<float> lows, highs;  // moving average: of the samples of this chunk
  std::optional<Range> averaged;   // moving average: of the chunks before
  std::variant<std::monostate, FixedHistogram, GrowingHistogram, Tails> histogram;
  std::optional<Range> range;  // percentile: where the tails decided it
  bool waits = false;          // for the whole range, which says where the bins lie
};

// Sees samples in lanes, side by side. What it finds does not depend on how many lanes there are, nor on which is
// first.
class RangeObserver {
 public:
  // Sees one sample after the other.
  class Lane : public Observer {
   public:
    explicit Lane(RangeObserver& all) : all_(all), sample_(all.tensors_.size()) {}
    void observe(size_t tensor, DataType type, std::span<const std::byte> values) override;
    void observe_clipped(const ClippedValues& values) override;
    // Of each tensor, in the sample that was seen last.
    std::vector<Extremes> take_sample();

   private:
    RangeObserver& all_;
    std::vector<Extremes> sample_;
    std::vector<float> widened_;  // of float16
  };

  // `samples`: how many will come, which says how long the tails of a percentile are.
  RangeObserver(const std::vector<std::string>& tensors, const CalibrateOptions& options, int64_t samples);

  // For each sample, in order. Throws Error{kInvalidInput} when one of the graph's ends held NaN.
  void end_sample(const std::string& name, const std::vector<Extremes>& sample);
  std::vector<TensorStatistics>& tensors() { return tensors_; }
  bool symmetric(CalibrationMethod method) const;
  // After the last sample: every histogram of `tensors` is complete, except for those that wait.
  void end();
  // Whether some do: then a second pass fills histograms over the ranges that the first has found, and those alone.
  bool waits() const;
  // The tensors by name, "" where they do not wait.
  std::vector<std::string> begin_second_pass();
  // The range of a tensor, once all samples are in.
  Range range_of(TensorStatistics& tensor) const;

 private:
  // Whether bins that grow while values come will do: where the histogram is not onnxruntime's.
  bool grows(CalibrationMethod method) const;
  int growing_bins(CalibrationMethod method) const;
  // Of one piece of a tensor; the extremes of its sample grow.
  void add(size_t tensor, std::span<const float> values, Extremes& sample);
  // Whether it is done: clipped values that are counted once for both tensors.
  bool add_clipped(const ClippedValues& values, Extremes& before, Extremes& after);
  void begin_tails(TensorStatistics& tensor, size_t values);
  FixedHistogram fixed_histogram(const TensorStatistics& tensor) const;
  void end_chunk(TensorStatistics& tensor) const;

  CalibrateOptions options_;
  std::vector<TensorStatistics> tensors_;
  std::vector<std::mutex> locks_;  // of the tensors' histograms; of `clipped_` that of its first tensor
  std::mutex shared_;              // of the list `clipped_`, of in_tails_
  // By the two tensors that it counts.
  std::map<std::pair<size_t, size_t>, ClippedHistogram> clipped_;
  int64_t samples_;
  size_t in_tails_ = 0;  // values that all of them may keep
  bool counting_only_ = false;
};

// The number of bins with defaults filled in.
int bins_of(const CalibrateOptions& options, CalibrationMethod method);

}  // namespace seqto::internal
