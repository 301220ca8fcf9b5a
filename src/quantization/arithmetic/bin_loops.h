// Room: quantization/arithmetic. The loops behind the histograms: from values to the numbers of their bins. Compiled
// once for each instruction set; the same numbers on all.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace seqto::internal {

// Bin of v: floor(v * scale) + offset.
struct EvenBins {
  float scale = 0;
  int32_t offset = 0;
};

// Bins with numpy's edges, counted by a quotient that may be off by one where it is close to an edge.
struct FixedBins {
  float first = 0, bins_per_unit = 0;
  // Half a bin from the outer edges is safe: what lies beyond them is the edge itself. So is 0, which is common (Relu)
  // and lies on an edge.
  float lowest = 0, highest = 0, zero = 0;
  float doubt = 0;  // a position nearer than this to a whole number may be in the bin beside
  bool magnitudes = false;
};

[[gnu::always_inline]] inline int32_t floor_of(float position) {
  int32_t bin = static_cast<int32_t>(position);
  return bin - static_cast<int32_t>(static_cast<float>(bin) > position);
}

[[gnu::always_inline]] inline void even_loop(const float* values, size_t count, EvenBins bins, int32_t* out) {
  for (size_t i = 0; i < count; ++i) out[i] = floor_of(values[i] * bins.scale) + bins.offset;
}

// Values from lowest to highest by `inner`, others by `outer`; lowest <= 0 <= highest.
struct ClippedBins {
  float lowest = 0, highest = 0;
  EvenBins inner, outer;
};
// Masks, for of branches compilers make no vectors.
[[gnu::always_inline]] inline void clipped_loop(const float* values, size_t count, const ClippedBins& bins,
                                                int32_t* out) {
  const auto [lowest, highest, inner, outer] = bins;
  const int32_t inner_scale = std::bit_cast<int32_t>(inner.scale), outer_scale = std::bit_cast<int32_t>(outer.scale);
  const int32_t scales = inner_scale ^ outer_scale, offsets = inner.offset ^ outer.offset;
  for (size_t i = 0; i < count; ++i) {
    const float value = values[i];
    const int32_t below = -static_cast<int32_t>(value < lowest), above = -static_cast<int32_t>(value > highest);
    const int32_t outside = below | above;
    const int32_t bin = floor_of(value * std::bit_cast<float>(inner_scale ^ (scales & outside)));
    const int32_t most = 0x7fffffff | below;  // -1 below, also where the product underflows to 0
    out[i] = (bin < most ? bin : most) + (inner.offset ^ (offsets & outside));
  }
}

// `beyond`: how far behind the lower edge of its bin each position lies, 0 to 1. Returns whether any is in doubt.
template <bool kMagnitudes>
[[gnu::always_inline]] inline bool fixed_loop(const float* values, size_t count, const FixedBins& b, int32_t* out,
                                              float* beyond) {
  int32_t doubtful = 0;
  for (size_t i = 0; i < count; ++i) {
    const float v = kMagnitudes ? __builtin_fabsf(values[i]) : values[i];
    float position = (v - b.first) * b.bins_per_unit;
    position = position < b.lowest ? b.lowest : position;
    position = position > b.highest ? b.highest : position;
    position = v == 0 ? b.zero : position;
    const int32_t bin = static_cast<int32_t>(position);
    const float rest = position - static_cast<float>(bin);
    doubtful |= static_cast<int32_t>(rest < b.doubt) | static_cast<int32_t>(rest > 1 - b.doubt);
    out[i] = bin;
    beyond[i] = rest;
  }
  return doubtful != 0;
}

[[gnu::always_inline]] inline bool fixed_or_magnitudes_loop(const float* values, size_t count, const FixedBins& b,
                                                            int32_t* out, float* beyond) {
  return b.magnitudes ? fixed_loop<true>(values, count, b, out, beyond)
                      : fixed_loop<false>(values, count, b, out, beyond);
}

struct BinFunctions {
  void (*even)(const float* values, size_t count, EvenBins bins, int32_t* out);
  void (*clipped)(const float* values, size_t count, const ClippedBins& bins, int32_t* out);
  bool (*fixed)(const float* values, size_t count, const FixedBins& bins, int32_t* out, float* beyond);
};

// The loops as every processor can run them; on others than x86 the only ones.
const BinFunctions& portable_bin_functions();
// The fastest that this processor can run.
const BinFunctions& bin_functions();

}  // namespace seqto::internal
