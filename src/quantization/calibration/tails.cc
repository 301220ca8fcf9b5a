#include "quantization/calibration/tails.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/extremes.h"

namespace seqto::internal {
namespace {

// Of tensors with so few values all are kept: then every share is known, and adds up as numpy's does.
constexpr int64_t kFew = int64_t{1} << 18;

double beyond(int64_t count, double percentile, bool symmetric) {
  return static_cast<double>(count) * (100.0 - percentile) / (symmetric ? 100.0 : 200.0);
}

}  // namespace

void LargestValues::take(float value) {
  if (values_.size() < 2 * most_ + 64) {
    values_.push_back(value);
    return;
  }
  auto last = values_.begin() + static_cast<std::ptrdiff_t>(most_);
  std::nth_element(values_.begin(), last, values_.end(), std::greater<>());
  floor_ = *std::max_element(last, values_.end());
  values_.erase(last, values_.end());
  add(value);
}

size_t Tails::wanted(int64_t count, double percentile, bool symmetric) {
  if (count <= kFew) return static_cast<size_t>(count);
  return static_cast<size_t>(1.25 * beyond(count, percentile, symmetric)) + 2;
}

void Tails::add(std::span<const float> values) {
  constexpr size_t kBlock = 256;  // small enough that most hold nothing of a tail
  count_ += std::ssize(values);
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    auto block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    Extremes e;
    e.add(block);
    if (symmetric_) {
      if (std::max(std::abs(e.lowest()), std::abs(e.highest())) <= high_.floor()) continue;
      for (float v : block) high_.add(std::abs(v));
    } else {
      if (e.highest() > high_.floor())
        for (float v : block) high_.add(v);
      if (-e.lowest() > low_.floor())
        for (float v : block) low_.add(-v);
    }
  }
}

std::optional<Histogram> Tails::decided(FixedHistogram empty, double percentile) const {
  if (std::ssize(high_.values()) == count_) {
    empty.add(high_.values());
    return empty.histogram();
  }
  auto [counts, edges] = empty.histogram();
  const double cut = beyond(count_, percentile, symmetric_);
  const size_t bins = counts.size();
  auto bin_of = [&edges = edges](float v) {
    return static_cast<size_t>(std::upper_bound(edges.begin() + 1, edges.end() - 1, v) - edges.begin()) - 1;
  };
  // Bins from `upper` on are known, and those before `lower`.
  const auto upper_edge = std::upper_bound(edges.begin(), edges.end() - 1, high_.floor());
  const size_t upper = static_cast<size_t>(upper_edge - edges.begin());
  const size_t lower = symmetric_ ? 0 : bin_of(-low_.floor());
  if (lower >= upper) return {};
  for (float v : high_.values())
    if (const size_t bin = bin_of(v); bin >= upper) ++counts[bin];
  for (float v : low_.values())
    if (const size_t bin = bin_of(-v); bin < lower) ++counts[bin];

  // How many lie on the outer side of each edge: in doubt where that is the number to be cut off, since shares are
  // added up in floating point.
  const double doubt = 1e-3 + 3e-16 * static_cast<double>(bins) * static_cast<double>(count_);
  int64_t above = 0, below = 0;
  auto clear = [&](int64_t outside) { return std::abs(static_cast<double>(outside) - cut) >= doubt; };
  for (size_t bin = bins; bin > upper; --bin) {
    if (!clear(above)) return {};
    above += counts[bin - 1];
  }
  for (size_t bin = 0; bin < lower; ++bin) {
    below += counts[bin];
    if (!clear(below)) return {};
  }
  // Beyond the last known edge there must be more than is cut off, wherever exactly they are.
  const int64_t kept_high = std::ssize(high_.values()), kept_low = std::ssize(low_.values());
  if (!clear(above) || static_cast<double>(kept_high) < cut + 1) return {};
  if (!symmetric_ && static_cast<double>(kept_low) < cut + 1) return {};
  const int64_t inside = count_ - above - below;
  const int64_t first = symmetric_ ? 0 : std::min(inside, kept_low - below);
  counts[lower] += first;
  counts[upper - 1] += inside - first;
  return Histogram{std::move(counts), std::move(edges)};
}

}  // namespace seqto::internal
