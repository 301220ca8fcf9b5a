// Room: quantization. Calibration: the ranges of a model's tensors over a data set. docs/design/calibration.md has the
// formulas.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto {

enum class CalibrationMethod {
  kMinMax,         // the smallest and the largest value seen
  kMovingAverage,  // averages of each sample's smallest and largest value
  kEntropy,        // the clipping that loses least information (KL divergence of the histogram)
  kPercentile,     // cuts off so many of the most extreme values
  kMse,            // the clipping with the least squared error of quantization
  kDistribution,   // the outer edges of the histogram, with mean and standard deviation; for 8-bit floats
};
std::string_view to_string(CalibrationMethod method);               // "minmax", "moving_average", "entropy" ...
CalibrationMethod parse_calibration_method(std::string_view name);  // throws Error{kUsage}

// counts[i] values lie in [edges[i], edges[i + 1]), the last bin closed.
struct Histogram {
  std::vector<int64_t> counts;
  std::vector<float> edges;
};

struct Range {
  float lowest = 0, highest = 0;
  std::optional<float> avg, std;               // distribution only
  std::shared_ptr<const Histogram> histogram;  // of the methods that need one; not of a percentile that tails decided
};
// Both bounds of a tensor that held infinity, as masks of attention do: no scale spans it, and what reads or writes it
// stays float.
inline constexpr float kUnbounded = std::numeric_limits<float>::max();
// Tensor name -> observed range. Independent of any plan: one calibration serves every candidate.
using Ranges = std::unordered_map<std::string, Range>;

struct CalibrateOptions {
  // Op types whose float inputs and outputs are observed; empty: the quantizer's default list.
  std::vector<std::string> op_types;
  CalibrationMethod method = CalibrationMethod::kMinMax;
  // Another method for some tensors: pattern (* and ?) and method, the first that fits counts.
  std::vector<std::pair<std::string, CalibrationMethod>> tensor_methods;
  // True: the float model runs as it is written; min-max, moving average, percentile, distribution and entropy with
  // bins = quantized_bins are then onnxruntime's to the bit. The last two read the samples twice, percentile where its
  // tails are long or rounding decides. False: one pass over the model as the runtime optimises it, which is two to
  // three times faster. Values differ by the rounding of the runtime's kernels, thresholds by at most a bin.
  bool exact = true;
  // Makes the range of min-max and moving average symmetric around 0, and the threshold of mse and percentile one for
  // both signs. Unset: true for percentile, as in onnxruntime, else false.
  std::optional<bool> symmetric;

  // Moving average: the mean over `chunk_samples` samples (0: all), and between chunks
  // old + moving_average_constant * (new - old). onnxruntime's CalibStridedMinMax; 1 is the usual moving average.
  int64_t chunk_samples = 0;
  float moving_average_constant = 0.01f;

  // Histograms: the number of bins; 0: 2048, of entropy 512. Entropy takes bins of at most `quantized_bins` as they
  // are, which keeps the whole range: --bins 128 --quantized-bins 128 is onnxruntime's default.
  int bins = 0;
  int quantized_bins = 256;
  double percentile = 99.999;  // percent of the values that stay inside
  // Mse: the type that activations are quantized to, and whether to scales that are powers of two, with zero point 0.
  DataType activation_type = DataType::kInt8;
  bool power_of_two_scales = false;
};

// The fields that differ from the defaults, but for those that follow from QuantizeOptions (op_types, activation_type,
// power_of_two_scales).
std::string calibrate_options_to_json(const CalibrateOptions& options);
CalibrateOptions calibrate_options_from_json(const std::string& text);  // throws Error{kInvalidInput}

// The options under which LayerOptions::method names ranges: a method, of percentile also as in "percentile:99.99".
// Throws Error{kUsage}.
CalibrateOptions calibration_named(const std::string& name, CalibrateOptions options);

// The ranges of all observed tensors in constant memory, whatever the number of samples; batches and shapes may vary.
// Throws Error{kInvalidInput} naming tensor and sample when a value is NaN; Error{kUsage} where options make no sense.
Ranges calibrate(const Model& model, const SampleRun& on, const CalibrateOptions& = {});

// onnxruntime's JSON calibration cache, both directions. Methods that it does not know are written as MinMax.
Ranges load_ranges(const std::filesystem::path& path);
void save_ranges(const Ranges& ranges, const std::filesystem::path& path,
                 CalibrationMethod method = CalibrationMethod::kMinMax);

// TensorRT's tables, as onnxruntime's write_calibration_table makes them: <prefix>.json, .flatbuffers and .cache.
void save_tensorrt_tables(const Ranges& ranges, const std::filesystem::path& prefix,
                          CalibrationMethod method = CalibrationMethod::kMinMax);

}  // namespace seqto
