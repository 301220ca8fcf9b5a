#include "data/log_mel.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <unsupported/Eigen/FFT>

namespace seqto::internal {
namespace {

constexpr int64_t kFrame = 400, kBins = kFrame / 2 + 1;
constexpr double kHighest = kWhisperRate / 2.0;

// Slaney's: linear up to 1 kHz, 27 steps a factor of 6.4 above.
constexpr double kLinear = 3.0 / 200, kBreak = 1000;
double mel_of(double hertz) {
  return hertz < kBreak ? kLinear * hertz : kLinear * kBreak + 27 * std::log(hertz / kBreak) / std::log(6.4);
}
double hertz_of(double mel) {
  return mel < kLinear * kBreak ? mel / kLinear : kBreak * std::exp((mel - kLinear * kBreak) * std::log(6.4) / 27);
}

// What each bin of the spectrum counts for in a band: a triangle of unit area.
struct Band {
  int64_t first = 0;
  std::vector<double> weights;
};

std::vector<Band> mel_bands(int64_t count) {
  std::vector<double> corners;
  for (int64_t i = 0; i < count + 2; ++i)
    corners.push_back(hertz_of(mel_of(kHighest) * static_cast<double>(i) / static_cast<double>(count + 1)));
  std::vector<Band> bands(static_cast<size_t>(count));
  for (size_t b = 0; b < bands.size(); ++b) {
    const double left = corners[b], middle = corners[b + 1], right = corners[b + 2];
    for (int64_t i = 0; i < kBins; ++i) {
      const double hertz = kHighest * static_cast<double>(i) / (kBins - 1);
      const double height = std::min((hertz - left) / (middle - left), (right - hertz) / (right - middle));
      if (height <= 0) continue;
      if (bands[b].weights.empty()) bands[b].first = i;
      bands[b].weights.push_back(height * 2 / (right - left));
    }
  }
  return bands;
}

}  // namespace

std::vector<float> whisper_log_mel(std::span<const float> samples, int64_t bands) {
  const int64_t length = std::ssize(samples), frames = length / kWhisperHop;
  const std::vector<Band> mel = mel_bands(bands);
  std::vector<double> hann(kFrame), frame(kFrame);
  for (int64_t i = 0; i < kFrame; ++i)
    hann[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / kFrame);
  Eigen::FFT<double> fft;
  fft.SetFlag(Eigen::FFT<double>::HalfSpectrum);
  std::vector<std::complex<double>> spectrum;
  std::vector<double> energies(static_cast<size_t>(bands * frames));
  for (int64_t f = 0; f < frames; ++f) {
    for (int64_t i = 0; i < kFrame; ++i) {
      int64_t at = std::abs(f * kWhisperHop + i - kFrame / 2);
      if (at >= length) at = 2 * (length - 1) - at;
      frame[i] = hann[i] * samples[at];
    }
    fft.fwd(spectrum, frame);
    for (int64_t b = 0; b < bands; ++b) {
      double energy = 0;
      for (size_t i = 0; i < mel[b].weights.size(); ++i)
        energy += mel[b].weights[i] * std::norm(spectrum[mel[b].first + static_cast<int64_t>(i)]);
      energies[b * frames + f] = std::log10(std::max(energy, 1e-10));
    }
  }
  const double lowest = (energies.empty() ? 0 : *std::ranges::max_element(energies)) - 8;
  std::vector<float> result;
  for (const double e : energies) result.push_back(static_cast<float>((std::max(e, lowest) + 4) / 4));
  return result;
}

}  // namespace seqto::internal
