// How far figures of few samples can be trusted: a bootstrap knows too little spread where few or none of them changed.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/statistics.h"
#include "metrics/limits.h"

namespace seqto::internal {
namespace {

constexpr const char* kChanged = "top1_disagreement";

// Numbered as resamples are drawn: blocks, or the samples themselves.
int64_t changed_units(const Measurement& m) {
  const std::vector<double>& values = m.samples.at(kChanged);
  const bool in_blocks = m.blocks.size() == values.size();
  std::set<int64_t> units;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] > 0) units.insert(in_blocks ? m.blocks[i] : static_cast<int64_t>(i));
  return std::ssize(units);
}

// Of all figures that are means over samples one has as many as there were.
int64_t samples_of(const Measurement& m) {
  int64_t most = 0;
  for (const auto& [name, values] : m.samples) most = std::max(most, std::ssize(values));
  return m.blocks.empty() ? most : std::min(most, std::ssize(std::set(m.blocks.begin(), m.blocks.end())));
}

}  // namespace

int64_t counted_samples(const Measurement& m, const std::string& figure) {
  const bool by_labels = figure == "f1" || figure == "top1" || figure == "top5" || figure == "accuracy";
  if (!by_labels && figure != kChanged) return 0;
  const auto samples = m.samples.find(by_labels && figure != "top5" ? "top1" : figure);
  return samples == m.samples.end() ? 0 : std::ssize(samples->second);
}

int64_t independent_samples(const Measurement& m, const std::string& figure) {
  const int64_t samples = counted_samples(m, figure);
  return m.blocks.empty() ? samples : std::min(samples, samples_of(m));
}

double changed_share(const Measurement& m, const std::string& figure) {
  const auto samples = m.samples.find(figure);
  if (figure != kChanged || samples == m.samples.end() || !m.kl_rows) return 1;
  double sum = 0, count = 0;
  for (const double share : samples->second)
    if (share > 0) sum += share, ++count;
  if (count > 0) return sum / count;
  return 1 / static_cast<double>(m.kl_rows->width * std::max<int64_t>(1, std::ssize(m.kl_rows->by_position)));
}

std::optional<Interval> trusted_interval(const Measurement& m, const std::string& figure, double value,
                                         std::optional<Interval> interval) {
  constexpr int64_t kFew = 20;  // as many blocks as resamples want
  if (std::isnan(value)) return interval;
  const int64_t samples = independent_samples(m, figure), all = samples_of(m);
  Interval trusted = interval.value_or(Interval{value, value});
  if (samples > 0) {
    const int64_t changed = figure == kChanged ? changed_units(m) : 0;
    const double each =
        changed > 0 ? value * static_cast<double>(samples) / static_cast<double>(changed) : changed_share(m, figure);
    // A drop below 0 for certain is none.
    if (trusted.high >= 0) trusted.high = std::max(trusted.high, most_of(changed, samples) * each);
    return trusted;
  }
  if (!interval || all == 0 || all >= kFew) return interval;
  trusted.high = all == 1 ? std::numeric_limits<double>::infinity() : value + (trusted.high - value) * expansion(all);
  return trusted;
}

}  // namespace seqto::internal
