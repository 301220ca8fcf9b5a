#include "quantization/calibration/range_observer.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/pairwise_sum.h"
#include "model/float16.h"
#include "quantization/calibration/thresholds.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

CalibrationMethod method_of(const std::string& tensor, const CalibrateOptions& options) {
  for (const auto& [pattern, method] : options.tensor_methods)
    if (pattern == tensor || ::fnmatch(pattern.c_str(), tensor.c_str(), 0) == 0) return method;
  return options.method;
}

void make_symmetric(Range& range) {
  float largest = std::max(std::abs(range.lowest), std::abs(range.highest));
  range = {-largest, largest};
}

float mean(const std::vector<float>& values) { return pairwise_sum<float>(values) / static_cast<float>(values.size()); }

bool needs_histogram(CalibrationMethod method) {
  return method != CalibrationMethod::kMinMax && method != CalibrationMethod::kMovingAverage;
}

}  // namespace

// A few samples fill fine bins unevenly, which entropy takes for a loss that narrower ranges would spare.
int bins_of(const CalibrateOptions& options, CalibrationMethod method) {
  if (options.bins > 0) return options.bins;
  return method == CalibrationMethod::kEntropy ? 512 : 2048;
}

RangeObserver::RangeObserver(const std::vector<std::string>& tensors, const CalibrateOptions& options, int64_t samples)
    : options_(options), locks_(tensors.size()), samples_(samples) {
  for (const auto& name : tensors) {
    TensorStatistics& t = tensors_.emplace_back();
    t.name = name;
    t.method = method_of(name, options);
    t.wants_magnitude = t.method == CalibrationMethod::kPercentile && symmetric(t.method);
    if (!needs_histogram(t.method)) continue;
    t.waits = !grows(t.method);
    if (!t.waits) t.histogram = GrowingHistogram(growing_bins(t.method));
  }
}

bool RangeObserver::symmetric(CalibrationMethod method) const {
  return options_.symmetric.value_or(method == CalibrationMethod::kPercentile ||
                                     (method == CalibrationMethod::kMse && options_.power_of_two_scales));
}

// The errors that mse adds up are the same in other bins, and onnxruntime's entropy only ever has as many bins as
// steps.
bool RangeObserver::grows(CalibrationMethod method) const {
  return !options_.exact || method == CalibrationMethod::kMse ||
         (method == CalibrationMethod::kEntropy && bins_of(options_, method) > options_.quantized_bins);
}

// The finer the bins, the narrower the range of least entropy: with at most as many as were asked for, instead of at
// least as many, it is never narrower than that of bins of their number.
int RangeObserver::growing_bins(CalibrationMethod method) const {
  const int bins = bins_of(options_, method);
  return method == CalibrationMethod::kEntropy ? static_cast<int>(std::bit_floor(static_cast<unsigned>(bins))) / 2
                                               : bins;
}

void RangeObserver::Lane::observe(size_t tensor, DataType type, std::span<const std::byte> bytes) {
  std::span<const float> values(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
  if (type == DataType::kFloat16) {
    std::span<const uint16_t> halves(reinterpret_cast<const uint16_t*>(bytes.data()), bytes.size() / sizeof(uint16_t));
    widened_.resize(halves.size());
    std::transform(halves.begin(), halves.end(), widened_.begin(), half_to_float);
    values = widened_;
  }
  all_.add(tensor, values, sample_[tensor]);
}

void RangeObserver::Lane::observe_clipped(const ClippedValues& v) {
  if (!all_.add_clipped(v, sample_[v.tensor], sample_[v.clipped_tensor])) Observer::observe_clipped(v);
}

std::vector<Extremes> RangeObserver::Lane::take_sample() {
  return std::exchange(sample_, std::vector<Extremes>(sample_.size()));
}

void RangeObserver::add(size_t tensor, std::span<const float> values, Extremes& sample) {
  TensorStatistics& t = tensors_[tensor];
  std::unique_lock lock(locks_[tensor], std::defer_lock);
  if (needs_histogram(t.method)) lock.lock();
  if (auto* fixed = std::get_if<FixedHistogram>(&t.histogram)) fixed->add(values);
  if (counting_only_) return;
  if (t.waits && !std::exchange(t.begun, true)) begin_tails(t, values.size());
  // Piece by piece, so that the second look finds the values in the cache.
  constexpr size_t kPiece = 4096;
  for (; !values.empty(); values = values.subspan(std::min(kPiece, values.size()))) {
    auto piece = values.first(std::min(kPiece, values.size()));
    Extremes extremes;
    extremes.add(piece);
    sample.add(extremes);
    if (std::isnan(extremes.lowest()) || std::isnan(extremes.highest())) continue;  // there is no range
    if (t.wants_magnitude && options_.exact)
      t.smallest_magnitude = std::min(t.smallest_magnitude, smallest_magnitude(piece));
    if (auto* growing = std::get_if<GrowingHistogram>(&t.histogram)) {
      float largest = std::max(std::abs(extremes.lowest()), std::abs(extremes.highest()));
      if (std::isfinite(largest)) growing->add(piece, largest);  // else there is no range
    } else if (auto* tails = std::get_if<Tails>(&t.histogram)) {
      tails->add(piece);
    }
  }
}

void RangeObserver::begin_tails(TensorStatistics& t, size_t values) {
  constexpr size_t kMost = size_t{1} << 21;
  if (t.method != CalibrationMethod::kPercentile) return;
  const bool both = symmetric(t.method);
  const size_t wanted = Tails::wanted(static_cast<int64_t>(values) * samples_, options_.percentile, both);
  std::lock_guard lock(shared_);
  if (in_tails_ + wanted > kMost) return;
  in_tails_ += wanted;
  t.histogram = Tails(wanted, both);
}

// Clipping keeps the order, so the extremes of the second tensor are those of the first, clipped.
bool RangeObserver::add_clipped(const ClippedValues& v, Extremes& before_sample, Extremes& after_sample) {
  if (options_.exact) return false;  // histograms come and go then, under locks
  TensorStatistics &before = tensors_[v.tensor], &after = tensors_[v.clipped_tensor];
  const bool growing = std::holds_alternative<GrowingHistogram>(before.histogram) &&
                       std::holds_alternative<GrowingHistogram>(after.histogram);
  const bool none = std::holds_alternative<std::monostate>(before.histogram) &&
                    std::holds_alternative<std::monostate>(after.histogram);
  if (v.tensor == v.clipped_tensor || before.method != after.method || !(v.lowest <= 0 && v.highest >= 0) ||
      !(growing || none))
    return false;
  Extremes piece;
  piece.add(v.values);
  if (piece.empty()) return true;
  before_sample.add(piece);
  float ends[2] = {piece.lowest(), piece.highest()};
  const bool holds_nan = std::isnan(ends[0]) || std::isnan(ends[1]);
  const float magnitude = std::max(std::abs(ends[0]), std::abs(ends[1]));
  clip_values(ends, 2, v.lowest, v.highest, ends);
  after_sample.add(ends);
  if (none || holds_nan || !std::isfinite(magnitude)) return true;  // there is no range
  ClippedHistogram* histogram = nullptr;
  {
    std::lock_guard lock(shared_);
    const std::pair key{v.tensor, v.clipped_tensor};
    histogram = &clipped_.try_emplace(key, growing_bins(before.method), v.lowest, v.highest).first->second;
  }
  std::lock_guard lock(locks_[v.tensor]);
  histogram->add(v.values, magnitude, std::max(std::abs(ends[0]), std::abs(ends[1])));
  return true;
}

void RangeObserver::end() {
  for (auto& [tensors, histogram] : clipped_)
    histogram.add_to(std::get<GrowingHistogram>(tensors_[tensors.first].histogram),
                     std::get<GrowingHistogram>(tensors_[tensors.second].histogram));
  clipped_.clear();
  for (TensorStatistics& t : tensors_) {
    t.waits = t.waits && !t.unbounded;
    auto* tails = std::get_if<Tails>(&t.histogram);
    if (!tails || t.all.empty() || t.unbounded) continue;
    if (auto decided = tails->decided(fixed_histogram(t), options_.percentile)) {
      t.range = percentile_range(*decided, t.all.lowest(), t.all.highest(), options_.percentile, symmetric(t.method));
      t.waits = false;
    }
    t.histogram = {};
  }
}

bool RangeObserver::waits() const {
  return std::any_of(tensors_.begin(), tensors_.end(), [](const auto& t) { return t.waits && !t.all.empty(); });
}

FixedHistogram RangeObserver::fixed_histogram(const TensorStatistics& t) const {
  const float largest = std::max(std::abs(t.all.lowest()), std::abs(t.all.highest()));
  const float first = t.wants_magnitude ? t.smallest_magnitude : -largest;
  return {first, largest, bins_of(options_, t.method), t.wants_magnitude};
}

std::vector<std::string> RangeObserver::begin_second_pass() {
  std::vector<std::string> names;
  for (TensorStatistics& t : tensors_) {
    const bool again = t.waits && !t.all.empty();
    if (again) t.histogram = fixed_histogram(t);
    names.push_back(again ? t.name : "");
  }
  counting_only_ = true;
  return names;
}

void RangeObserver::end_sample(const std::string& name, const std::vector<Extremes>& sample) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (sample[i].empty()) continue;
    TensorStatistics& t = tensors_[i];
    const float low = sample[i].lowest(), high = sample[i].highest();
    if (std::isnan(low) || std::isnan(high)) {
      if (t.is_end)
        throw Error(
            Code::kInvalidInput,
            fmt::format("[calibrate] tensor '{}' holds NaN for sample '{}'; finite values were expected; check the "
                        "model and the preprocessing",
                        t.name, name));
      if (t.first_nan.empty()) t.first_nan = name;
      t.unbounded = true;
      continue;
    }
    t.unbounded |= low <= -kUnbounded || high >= kUnbounded;
    t.all.add(sample[i]);
    if (t.method != CalibrationMethod::kMovingAverage) continue;
    t.lows.push_back(low);
    t.highs.push_back(high);
    if (options_.chunk_samples > 0 && static_cast<int64_t>(t.lows.size()) >= options_.chunk_samples) end_chunk(t);
  }
}

void RangeObserver::end_chunk(TensorStatistics& t) const {
  if (t.lows.empty()) return;
  Range chunk{mean(t.lows), mean(t.highs)};
  if (symmetric(t.method)) make_symmetric(chunk);
  if (t.averaged) {
    const float c = options_.moving_average_constant;
    chunk.lowest = t.averaged->lowest + c * (chunk.lowest - t.averaged->lowest);
    chunk.highest = t.averaged->highest + c * (chunk.highest - t.averaged->highest);
  }
  t.averaged = chunk;
  t.lows.clear();
  t.highs.clear();
}

Range RangeObserver::range_of(TensorStatistics& t) const {
  if (t.unbounded) return {-kUnbounded, kUnbounded};
  Range range{t.all.empty() ? 0.0f : t.all.lowest(), t.all.empty() ? 0.0f : t.all.highest()};
  if (t.method == CalibrationMethod::kMovingAverage) {
    end_chunk(t);
    return t.averaged.value_or(Range{});
  }
  const bool both = symmetric(t.method);
  if (t.method == CalibrationMethod::kMinMax) {
    if (both) make_symmetric(range);
    return range;
  }
  if (t.range) return *t.range;
  Histogram histogram;
  if (auto* fixed = std::get_if<FixedHistogram>(&t.histogram)) histogram = fixed->histogram();
  if (auto* growing = std::get_if<GrowingHistogram>(&t.histogram))
    histogram = t.wants_magnitude ? growing->magnitudes() : growing->histogram();
  if (histogram.counts.empty()) return range;
  const float lowest = range.lowest, highest = range.highest;
  if (t.method == CalibrationMethod::kPercentile)
    range = percentile_range(histogram, lowest, highest, options_.percentile, both);
  else if (t.method == CalibrationMethod::kEntropy)
    range = entropy_range(histogram, lowest, highest, options_.quantized_bins);
  else if (t.method == CalibrationMethod::kMse) range = mse_range(histogram, lowest, highest, options_, both);
  else range = distribution_range(histogram);
  if (t.method == CalibrationMethod::kDistribution && std::holds_alternative<GrowingHistogram>(t.histogram)) {
    // Growing bins end at a power of two.
    range.highest = std::max(std::abs(lowest), std::abs(highest));
    range.lowest = -range.highest;
  }
  range.histogram = std::make_shared<const Histogram>(std::move(histogram));
  return range;
}

}  // namespace seqto::internal
