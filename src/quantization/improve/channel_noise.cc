#include "quantization/improve/channel_noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "quantization/improve/channel_groups.h"

namespace seqto::internal {
namespace {

constexpr size_t kNoSlot = ChannelGroup::kNoSlot;
// Factors stay within this of their mean, so that a channel that is never used does not drown the others.
constexpr double kLargestFactor = 16;
constexpr int kSteps = 400;
constexpr double kFirstStep = 0.1;  // of a factor's logarithm

// v^16: of shares of the largest, all but those near it vanish.
double sharpened(double v) {
  for (int i = 0; i < 4; ++i) v *= v;
  return v;
}

// A fold whose order compilers may vectorize, and that is the same on every machine.
double folded(const std::vector<double>& values, auto step) {
  std::array<double, 8> lanes{};
  const size_t whole = values.size() / lanes.size() * lanes.size();
  for (size_t i = 0; i < whole; i += lanes.size())
    for (size_t k = 0; k < lanes.size(); ++k) lanes[k] = step(lanes[k], values[i + k]);
  for (size_t i = whole; i < values.size(); ++i) lanes[0] = step(lanes[0], values[i]);
  double result = 0;
  for (double lane : lanes) result = step(result, lane);
  return result;
}

// The largest of `values`, all 0 or above, as the smooth maximum that has a gradient; `shares` become each one's part
// in it. 0 where all are.
double smooth_maximum(const std::vector<double>& values, std::vector<double>& shares) {
  shares.assign(values.size(), 0);
  const double largest = folded(values, [](double a, double b) { return a < b ? b : a; });
  if (!(largest > 0)) return 0;
  for (size_t i = 0; i < values.size(); ++i) shares[i] = sharpened(values[i] / largest);
  const double sum = folded(shares, std::plus());
  for (double& share : shares) share /= sum;
  return largest * std::pow(sum, 1.0 / 16);
}

class Descent {
 public:
  explicit Descent(const ChannelNoise& noise) : noise_(noise), gains_(noise.slots), factors_(noise.slots, 1) {
    for (const auto& r : noise.readers) {
      const double total = std::accumulate(r.energies.begin(), r.energies.end(), 0.0);
      for (size_t c = 0; c < r.slots.size(); ++c)
        if (r.slots[c] != kNoSlot && total > 0) gains_[r.slots[c]] += r.energies[c] / total;
    }
    // What no layer reads is written all the same.
    const double least = 1e-6 * std::accumulate(gains_.begin(), gains_.end(), 0.0);
    for (double& gain : gains_) gain = std::max(gain, least);
  }

  // Adam (Kingma and Ba 2015), with shorter steps towards the end: groups differ in size by orders of magnitude, and it
  // asks for no scale.
  std::vector<double> run() {
    std::vector<double> x(noise_.slots), gradient(noise_.slots), mean(noise_.slots), square(noise_.slots);
    std::vector<double> best = factors_;
    double least = std::numeric_limits<double>::infinity();
    for (int k = 1; k <= kSteps; ++k) {
      const double value = evaluate(gradient);
      if (value < least) least = value, best = factors_;
      const double rate = kFirstStep * (1 - static_cast<double>(k) / (kSteps + 1));
      for (size_t c = 0; c < x.size(); ++c) {
        mean[c] = 0.9 * mean[c] + 0.1 * gradient[c];
        square[c] = 0.99 * square[c] + 0.01 * gradient[c] * gradient[c];
        const double unbiased = square[c] / (1 - std::pow(0.99, k));
        if (unbiased > 0) x[c] -= rate * mean[c] / (1 - std::pow(0.9, k)) / std::sqrt(unbiased);
      }
      constrain(x);
      for (size_t c = 0; c < x.size(); ++c) factors_[c] = std::exp(x[c]);
    }
    return best;
  }

 private:
  // The factors' logarithms.
  void constrain(std::vector<double>& x) const {
    if (!noise_.least.empty()) {
      for (size_t c = 0; c < x.size(); ++c) x[c] = std::clamp(x[c], std::log(noise_.least[c]), 0.0);
      return;
    }
    const double middle = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
    for (double& v : x) v = std::clamp(v - middle, -std::log(kLargestFactor), std::log(kLargestFactor));
  }

  // The noise, and its gradient by the logarithms of the factors.
  double evaluate(std::vector<double>& gradient) {
    std::ranges::fill(gradient, 0.0);
    double total = 0;
    for (const auto& activation : noise_.activations) total += of_activation(activation, gradient);
    for (const auto& reader : noise_.readers) total += of_reader(reader, gradient);
    return total;
  }

  double of_activation(const ChannelNoise::Activation& a, std::vector<double>& gradient) {
    double noise = 0, signal = 0;
    values_.assign(a.slots.size(), 0);
    for (size_t c = 0; c < a.slots.size(); ++c) {
      const size_t slot = a.slots[c];
      if (slot == kNoSlot) continue;
      noise += gains_[slot] * factors_[slot] * factors_[slot];
      signal += gains_[slot] * a.squares[c];
      values_[c] = a.reach[c] / factors_[slot];
    }
    const double scale = smooth_maximum(values_, shares_) / a.levels;
    if (!(signal > 0) || scale == 0) return 0;
    const double value = scale * scale * a.terms * noise / signal;
    for (size_t c = 0; c < a.slots.size(); ++c)
      if (const size_t slot = a.slots[c]; slot != kNoSlot)
        gradient[slot] += 2 * value * (gains_[slot] * factors_[slot] * factors_[slot] / noise - shares_[c]);
    return value;
  }

  double of_reader(const ChannelNoise::Reader& r, std::vector<double>& gradient) {
    const size_t channels = r.slots.size();
    double spread = 0, signal = 0, total = 0;
    std::vector<double> factors(channels), slopes(channels);
    for (size_t c = 0; c < channels; ++c) {
      factors[c] = r.slots[c] == kNoSlot ? 1 : factors_[r.slots[c]];
      spread += r.squares[c] / factors[c] / factors[c];
      signal += r.squares[c] * r.energies[c];
    }
    if (!(signal > 0)) return 0;
    values_.resize(channels);
    for (const auto& row : r.rows) {
      for (size_t c = 0; c < channels; ++c) values_[c] = row[c] * factors[c];
      const double scale = smooth_maximum(values_, shares_) / 127;
      const double value = scale * scale * r.values * spread / signal;
      total += value;
      for (size_t c = 0; c < channels; ++c) slopes[c] += value * shares_[c];
    }
    for (size_t c = 0; c < channels; ++c)
      if (const size_t slot = r.slots[c]; slot != kNoSlot)
        gradient[slot] += 2 * (slopes[c] - total * r.squares[c] / factors[c] / factors[c] / spread);
    return total;
  }

  const ChannelNoise& noise_;
  std::vector<double> gains_;
  std::vector<double> factors_;
  std::vector<double> values_, shares_;  // of one scale
};

}  // namespace

std::vector<double> quietest_factors(const ChannelNoise& noise) { return Descent(noise).run(); }

}  // namespace seqto::internal
