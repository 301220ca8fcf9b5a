// Room: base. The loops behind Extremes::add and clip_values, compiled once per instruction set.
#pragma once

#include <cstddef>

#include "base/extremes.h"

namespace seqto::internal {

[[gnu::always_inline]] inline void extremes_loop(const float* values, size_t count, Extremes& result) {
  int32_t lowest = result.lowest_key, highest = result.highest_key;
  for (size_t i = 0; i < count; ++i) {
    int32_t key = order_key(values[i]);
    lowest = key < lowest ? key : lowest;
    highest = key > highest ? key : highest;
  }
  result.lowest_key = lowest;
  result.highest_key = highest;
}

[[gnu::always_inline]] inline void clip_loop(const float* in, size_t count, float lowest, float highest, float* out) {
#pragma GCC ivdep  // in place or apart, never shifted
  for (size_t i = 0; i < count; ++i) {
    float value = in[i] < lowest ? lowest : in[i];
    out[i] = highest < value ? highest : value;
  }
}

[[gnu::always_inline]] inline void magnitude_loop(const float* values, size_t count, uint32_t& smallest) {
  uint32_t least = smallest;
  for (size_t i = 0; i < count; ++i) {
    uint32_t magnitude = std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu;
    least = magnitude < least ? magnitude : least;
  }
  smallest = least;
}

struct RangeFunctions {
  void (*extremes)(const float* values, size_t count, Extremes& result);
  void (*clip)(const float* in, size_t count, float lowest, float highest, float* out);
  void (*magnitude)(const float* values, size_t count, uint32_t& smallest);  // the bits of |value|
};
// The fastest that this machine can run.
RangeFunctions choose_range_functions();

}  // namespace seqto::internal
