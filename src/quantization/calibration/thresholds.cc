#include "quantization/calibration/thresholds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/pairwise_sum.h"
#include "quantization/arithmetic/arithmetic.h"

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
  constexpr int kRounds = 8;
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

// The divergence for the bins [begin, end) kept. Sums over runs of bins come from tables, so that a candidate costs
// one logarithm a step: within a step Q is one number q over the n occupied bins, whose p log p is summed beforehand.
class EntropyCost {
 public:
  EntropyCost(const std::vector<int64_t>& counts, int quantized_bins)
      : counts_(counts), levels_(static_cast<size_t>(quantized_bins)) {
    for (size_t i = 0; i < counts.size(); ++i) {
      const double p = static_cast<double>(counts[i]);
      sum_.push_back(sum_.back() + p);
      p_log_p_.push_back(p_log_p_.back() + x_log_x(p));
      occupied_.push_back(occupied_.back() + (p != 0));
    }
  }

  double operator()(size_t begin, size_t end) const {
    // What a kept bin can miss: without it a bin that only holds tails would cost infinity.
    constexpr double kFloor = 1e-9;
    const double total = sum_.back(), kept = sum_[end] - sum_[begin];
    if (kept == 0) return std::numeric_limits<double>::infinity();
    const double left = sum_[begin], right = total - sum_[end];
    const size_t size = end - begin;
    double p_log_p = p_log_p_[end] - p_log_p_[begin], p_log_q = 0;
    for (size_t level = 0; level < levels_; ++level) {
      const size_t from = begin + level * size / levels_, to = begin + (level + 1) * size / levels_;
      const double sum = sum_[to] - sum_[from];
      if (sum > 0) p_log_q += sum * std::log(sum / (occupied_[to] - occupied_[from]) / kept + kFloor);
    }
    // The ends also hold the tails.
    auto add_tail = [&](size_t bin, size_t from, size_t to, double tail) {
      if (tail == 0) return;
      const double own = static_cast<double>(counts_[bin]);
      const double q = own > 0 ? (sum_[to] - sum_[from]) / (occupied_[to] - occupied_[from]) / kept : 0;
      p_log_p += x_log_x(own + tail) - x_log_x(own);
      p_log_q += tail * std::log(q + kFloor);
    };
    add_tail(begin, begin, begin + std::max<size_t>(1, size / levels_), left);
    add_tail(end - 1, begin + (levels_ - 1) * size / levels_, end, right);
    return (p_log_p - p_log_q) / total - std::log(total);
  }

 private:
  static double x_log_x(double x) { return x > 0 ? x * std::log(x) : 0; }

  const std::vector<int64_t>& counts_;
  size_t levels_;
  std::vector<double> sum_{0}, p_log_p_{0}, occupied_{0};
};

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

Range entropy_range(const Histogram& histogram, float lowest, float highest, int quantized_bins) {
  constexpr int kSteps = 64;
  const std::vector<int64_t>& counts = histogram.counts;
  // The bin with 0 stays inside, since every quantized range holds 0; empty bins outside the values do not count.
  auto upper = std::upper_bound(histogram.edges.begin(), histogram.edges.end(), 0.0f);
  const size_t zero = std::clamp<size_t>(static_cast<size_t>(upper - histogram.edges.begin()), 1, counts.size()) - 1;
  size_t first = 0, last = counts.size();
  while (first < zero && counts[first] == 0) ++first;
  while (last > zero + 1 && counts[last - 1] == 0) --last;
  if (last - first <= static_cast<size_t>(quantized_bins)) return {lowest, highest};
  auto begin_at = [&](int place) { return zero - (zero - first) * static_cast<size_t>(place) / kSteps; };
  auto end_at = [&](int place) { return zero + 1 + (last - zero - 1) * static_cast<size_t>(place) / kSteps; };
  EntropyCost divergence(counts, quantized_bins);
  auto cost = [&](int low, int high) {
    const size_t begin = begin_at(low), end = end_at(high);
    if (end - begin < static_cast<size_t>(quantized_bins)) return std::numeric_limits<double>::infinity();
    return divergence(begin, end);
  };
  const auto [low, high] = descend(kSteps, lowest < 0, highest > 0, cost);
  return clipped(low == kSteps ? lowest : histogram.edges[begin_at(low)],
                 high == kSteps ? highest : histogram.edges[end_at(high)], lowest, highest);
}

Range mse_range(const Histogram& histogram, float lowest, float highest, const CalibrateOptions& options,
                bool symmetric) {
  constexpr int kSteps = 64;
  std::vector<double> centres, counts;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    centres.push_back((static_cast<double>(histogram.edges[i]) + histogram.edges[i + 1]) / 2);
    counts.push_back(static_cast<double>(histogram.counts[i]));
  }
  const QuantLimits limits = quant_limits(options.activation_type, false, symmetric);
  const AffineRule rule{limits, symmetric, {}, DataType::kFloat, options.power_of_two_scales};
  const float largest = std::max(std::abs(lowest), std::abs(highest));
  auto place = [&](float outermost, int step) {
    return step == kSteps ? outermost : outermost * (static_cast<float>(step) / kSteps);
  };
  auto cost = [&](int low, int high) {
    const float rmin = symmetric ? -place(largest, high) : place(std::min(lowest, 0.0f), low);
    const float rmax = place(symmetric ? largest : std::max(highest, 0.0f), high);
    if (!(rmin < rmax)) return std::numeric_limits<double>::infinity();
    const ScaleZeroPoint p = scale_zero_point(rmin, rmax, rule);
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
