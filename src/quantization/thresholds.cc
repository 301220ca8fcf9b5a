#include "quantization/thresholds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/pairwise_sum.h"
#include "quantization/arithmetic.h"

namespace seqto::internal {
namespace {

int64_t total_of(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

Range clipped(float low, float high, float lowest, float highest) {
  return {std::max(low, lowest), std::min(high, highest)};
}

// Moves the two ends of a range in turn to their best of `steps` places, until neither wants to move.
// cost(low, high) takes places: 0 is the innermost, `steps` the outermost.
template <class Cost>
std::pair<int, int> descend(int steps, bool low_moves, bool high_moves, Cost cost) {
  constexpr int kRounds = 4;
  std::pair<int, int> best{steps, steps};
  double least = cost(steps, steps);
  for (int round = 0; round < kRounds; ++round) {
    const auto before = best;
    // From the outside in: of equal costs the wider range stays.
    for (int place = steps; high_moves && place >= 0; --place)
      if (double c = cost(best.first, place); c < least) least = c, best.second = place;
    for (int place = steps; low_moves && place >= 0; --place)
      if (double c = cost(place, best.second); c < least) least = c, best.first = place;
    if (best == before) break;
  }
  return best;
}

}  // namespace

Range percentile_range(const Histogram& histogram, float lowest, float highest, double percentile, bool symmetric) {
  const double total = static_cast<double>(total_of(histogram.counts));
  std::vector<double> shares;
  double sum = 0;
  for (int64_t count : histogram.counts) shares.push_back(sum += static_cast<double>(count) / total);
  auto edge = [&](double share) {
    auto it = std::lower_bound(shares.begin(), shares.end(), share);
    return histogram.edges[static_cast<size_t>(it - shares.begin())];
  };
  if (symmetric) {
    float threshold = edge(percentile / 100.0);
    return clipped(-threshold, threshold, lowest, highest);
  }
  const double cut = (100.0 - percentile) / 200.0;
  return clipped(edge(cut), edge(1.0 - cut), lowest, highest);
}

double entropy_divergence(const std::vector<int64_t>& counts, size_t begin, size_t end, int quantized_bins) {
  // What a kept bin can miss: without it a bin that only holds tails would cost infinity.
  constexpr double kFloor = 1e-9;
  const size_t size = end - begin;
  std::vector<double> p(counts.begin() + static_cast<std::ptrdiff_t>(begin),
                        counts.begin() + static_cast<std::ptrdiff_t>(end));
  const double kept = std::accumulate(p.begin(), p.end(), 0.0);
  if (kept == 0) return std::numeric_limits<double>::infinity();
  std::vector<double> q(size);
  const size_t levels = static_cast<size_t>(quantized_bins);
  for (size_t level = 0; level < levels; ++level) {
    const size_t from = level * size / levels, to = (level + 1) * size / levels;
    double sum = 0, occupied = 0;
    for (size_t i = from; i < to; ++i) {
      sum += p[i];
      occupied += p[i] != 0;
    }
    for (size_t i = from; i < to; ++i) q[i] = p[i] != 0 ? sum / occupied : 0;
  }
  p.front() += static_cast<double>(std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(begin), int64_t{0}));
  p.back() += static_cast<double>(std::accumulate(counts.begin() + static_cast<std::ptrdiff_t>(end), counts.end(), int64_t{0}));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  double divergence = 0;
  for (size_t i = 0; i < size; ++i)
    if (p[i] != 0) divergence += p[i] / total * std::log(p[i] / total / (q[i] / kept + kFloor));
  return divergence;
}

Range entropy_range(const Histogram& histogram, float lowest, float highest, int quantized_bins) {
  constexpr int kSteps = 128;
  const size_t bins = histogram.counts.size();
  if (bins <= static_cast<size_t>(quantized_bins)) return {lowest, highest};
  // The bin with 0 stays inside, since every quantized range holds 0.
  auto upper = std::upper_bound(histogram.edges.begin(), histogram.edges.end(), 0.0f);
  const size_t zero = std::clamp<size_t>(static_cast<size_t>(upper - histogram.edges.begin()), 1, bins) - 1;
  auto begin_at = [&](int place) { return zero - zero * static_cast<size_t>(place) / kSteps; };
  auto end_at = [&](int place) { return zero + 1 + (bins - zero - 1) * static_cast<size_t>(place) / kSteps; };
  auto cost = [&](int low, int high) {
    const size_t begin = begin_at(low), end = end_at(high);
    if (end - begin < static_cast<size_t>(quantized_bins)) return std::numeric_limits<double>::infinity();
    return entropy_divergence(histogram.counts, begin, end, quantized_bins);
  };
  const auto [low, high] = descend(kSteps, lowest < 0, highest > 0, cost);
  return clipped(low == kSteps ? lowest : histogram.edges[begin_at(low)],
                 high == kSteps ? highest : histogram.edges[end_at(high)], lowest, highest);
}

Range mse_range(const Histogram& histogram, float lowest, float highest, DataType type, bool symmetric) {
  constexpr int kSteps = 64;
  std::vector<double> centres, counts;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    centres.push_back((static_cast<double>(histogram.edges[i]) + histogram.edges[i + 1]) / 2);
    counts.push_back(static_cast<double>(histogram.counts[i]));
  }
  const QuantLimits limits = quant_limits(type, false, symmetric);
  const float largest = std::max(std::abs(lowest), std::abs(highest));
  auto place = [&](float outermost, int step) {
    return step == kSteps ? outermost : outermost * (static_cast<float>(step) / kSteps);
  };
  auto cost = [&](int low, int high) {
    const float rmin = symmetric ? -place(largest, high) : place(std::min(lowest, 0.0f), low);
    const float rmax = place(symmetric ? largest : std::max(highest, 0.0f), high);
    if (!(rmin < rmax)) return std::numeric_limits<double>::infinity();
    const ScaleZeroPoint p = scale_zero_point(rmin, rmax, limits, symmetric);
    const double scale = p.scale, least = limits.lowest - p.zero_point, most = limits.highest - p.zero_point;
    double sum = 0;
    for (size_t i = 0; i < centres.size(); ++i) {
      const double code = std::clamp(std::nearbyint(centres[i] / scale), least, most);
      const double error = centres[i] - code * scale;
      sum += counts[i] * error * error;
    }
    return sum;
  };
  const auto [low, high] = descend(kSteps, !symmetric && lowest < 0, symmetric || highest > 0, cost);
  if (symmetric) return {-place(largest, high), place(largest, high)};
  return {lowest < 0 ? place(lowest, low) : lowest, highest > 0 ? place(highest, high) : highest};
}

Range distribution_range(const Histogram& histogram) {
  const size_t bins = histogram.counts.size();
  std::vector<double> first(bins), second(bins);
  for (size_t i = 0; i < bins; ++i) {
    const float centre = (histogram.edges[i] + histogram.edges[i + 1]) * 0.5f;
    const float square = centre * centre;
    first[i] = static_cast<double>(histogram.counts[i]) * static_cast<double>(centre);
    second[i] = static_cast<double>(histogram.counts[i]) * static_cast<double>(square);
  }
  const double total = static_cast<double>(total_of(histogram.counts));
  const double avg = pairwise_sum<double>(first) / total;
  const double variance = pairwise_sum<double>(second) / total - avg * avg;
  Range range{histogram.edges.front(), histogram.edges.back()};
  range.avg = static_cast<float>(avg);
  range.std = static_cast<float>(std::pow(variance, 0.5));
  return range;
}

}  // namespace seqto::internal
