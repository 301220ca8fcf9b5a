#include "quantization/calibration/growing_histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <numeric>

namespace seqto::internal {
namespace {

// Values are taken in blocks: bin numbers by a loop of vectors, then the counting.
constexpr size_t kBlock = 256;

template <class Number>
void count(std::span<const float> values, LaneCounts& counts, Number number) {
  std::array<int32_t, kBlock> bins;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, values.size() - begin);
    number(values.data() + begin, size, bins.data());
    counts.add({bins.data(), size});
  }
}

}  // namespace

GrowingBins::GrowingBins(int bins) : half_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(bins, 4))))) {}

int GrowingBins::exponent_for(float magnitude) {
  if (!(magnitude > 0)) return kUnset;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  return std::max(exponent, -100);   // so that the scale stays finite
}

EvenBins GrowingBins::even_bins() const {
  if (exponent_ == kUnset) return {0, half_};
  return {std::ldexp(static_cast<float>(half_), -exponent_), half_};  // a power of two: v * scale is exact
}

void GrowingBins::grow_to(int exponent, std::span<int64_t> counts) {
  if (exponent_ == kUnset) exponent_ = std::max(exponent_, exponent);  // zeros stay where they are
  const size_t half = static_cast<size_t>(half_);
  for (; exponent_ < exponent; ++exponent_) {
    std::vector<int64_t> merged(counts.size());
    for (size_t i = 0; i < counts.size(); ++i) merged[half / 2 + i / 2] += counts[i];
    std::copy(merged.begin(), merged.end(), counts.begin());
  }
}

void GrowingBins::merge(const GrowingBins& other, std::span<const int64_t> others, std::span<int64_t> counts) {
  assert(half_ == other.half_);
  grow_to(other.exponent_, counts);
  std::vector<int64_t> shifted(others.begin(), others.end());
  GrowingBins as_coarse = other;
  as_coarse.grow_to(exponent_, shifted);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += shifted[i];
}

void GrowingBins::add(float value, int64_t count, std::span<int64_t> counts) {
  if (count == 0) return;
  grow(std::abs(value), counts);
  const EvenBins bins = even_bins();
  const int64_t bin = int64_t{floor_of(value * bins.scale)} + bins.offset;
  counts[static_cast<size_t>(bin)] += count;
}

Histogram GrowingBins::between(size_t begin, size_t end, const std::vector<int64_t>& counts) const {
  Histogram result;
  const int shift = exponent_ - std::countr_zero(static_cast<unsigned>(half_));
  for (size_t i = begin; i <= end; ++i)
    result.edges.push_back(std::ldexp(static_cast<float>(static_cast<int64_t>(i) - half_), shift));
  result.counts.assign(counts.begin() + static_cast<std::ptrdiff_t>(begin),
                       counts.begin() + static_cast<std::ptrdiff_t>(end));
  return result;
}

Histogram GrowingBins::histogram(const std::vector<int64_t>& counts) const {
  if (exponent_ == kUnset) return {{counts[static_cast<size_t>(half_)]}, {0, 0}};
  size_t begin = 0, end = counts.size();
  while (begin < end && counts[begin] == 0) ++begin;
  while (end > begin && counts[end - 1] == 0) --end;
  return between(begin, end, counts);
}

Histogram GrowingBins::magnitudes(const std::vector<int64_t>& counts) const {
  const size_t half = static_cast<size_t>(half_);
  if (exponent_ == kUnset) return {{counts[half]}, {0, 0}};
  std::vector<int64_t> folded(counts.size());
  for (size_t i = 0; i < half; ++i) folded[half + i] = counts[half + i] + counts[half - 1 - i];
  size_t end = folded.size();
  while (end > half + 1 && folded[end - 1] == 0) --end;
  return between(half, end, folded);
}

void GrowingHistogram::add(std::span<const float> values, float magnitude) {
  if (bins_.must_grow(magnitude)) bins_.grow(magnitude, counts_.totals());
  const EvenBins bins = bins_.even_bins();
  count(values, counts_, [&](const float* v, size_t n, int32_t* out) { bin_functions().even(v, n, bins, out); });
}

ClippedHistogram::ClippedHistogram(int bins, float lowest, float highest)
    : lowest_(lowest), highest_(highest), inner_(bins), outer_(bins), counts_(inner_.size() + outer_.size()) {
  assert(lowest <= 0 && highest >= 0);
}

void ClippedHistogram::add(std::span<const float> values, float magnitude, float clipped_magnitude) {
  const size_t size = inner_.size();
  if (inner_.must_grow(clipped_magnitude)) inner_.grow(clipped_magnitude, std::span(counts_.totals()).first(size));
  if (outer_.must_grow(magnitude)) outer_.grow(magnitude, std::span(counts_.totals()).subspan(size));
  ClippedBins bins{lowest_, highest_, inner_.even_bins(), outer_.even_bins()};
  bins.outer.offset += static_cast<int32_t>(size);
  count(values, counts_, [&](const float* v, size_t n, int32_t* out) { bin_functions().clipped(v, n, bins, out); });
}

void ClippedHistogram::add_to(GrowingHistogram& before, GrowingHistogram& after) {
  const std::span<const int64_t> all = counts_.totals();
  const auto inside = all.first(inner_.size()), outside = all.subspan(inner_.size());
  before.bins_.merge(outer_, outside, before.counts_.totals());
  before.bins_.merge(inner_, inside, before.counts_.totals());
  after.bins_.merge(inner_, inside, after.counts_.totals());
  const auto middle = outside.begin() + static_cast<std::ptrdiff_t>(outside.size() / 2);
  after.bins_.add(lowest_, std::accumulate(outside.begin(), middle, int64_t{0}), after.counts_.totals());
  after.bins_.add(highest_, std::accumulate(middle, outside.end(), int64_t{0}), after.counts_.totals());
}

}  // namespace seqto::internal
