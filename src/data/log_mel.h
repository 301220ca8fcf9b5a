// Room: data. Sound as Whisper hears it: energies of mel bands.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace seqto::internal {

constexpr int64_t kWhisperRate = 16000, kWhisperHop = 160, kWhisperWindow = 30 * kWhisperRate;

// Of `samples` at 16 kHz, -1 to 1: [bands, samples / 160], one band after the other. Frames of 400 samples under a Hann
// window, mirrored at both ends; the power spectrum in Slaney's mel bands up to 8 kHz, each of unit area; the decadic
// logarithm, at most 8 below the largest, + 4, / 4 (Radford et al. 2022, and the feature extractor that came with it).
// `samples` has more than 200.
std::vector<float> whisper_log_mel(std::span<const float> samples, int64_t bands);

}  // namespace seqto::internal
