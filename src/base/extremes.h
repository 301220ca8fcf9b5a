// Room: base. Smallest and largest of many floats, at the speed of memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace seqto::internal {

// Integers in the order of the floats, NaN at both ends: comparing them needs no rule for NaN, and vectorises.
inline int32_t order_key(float value) {
  int32_t bits = std::bit_cast<int32_t>(value);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
inline float from_order_key(int32_t key) { return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff)); }

struct Extremes {
  int32_t lowest_key = std::numeric_limits<int32_t>::max(), highest_key = std::numeric_limits<int32_t>::min();

  void add(std::span<const float> values);
  void add(const Extremes& other) {
    lowest_key = std::min(lowest_key, other.lowest_key);
    highest_key = std::max(highest_key, other.highest_key);
  }
  bool empty() const { return lowest_key > highest_key; }
  float lowest() const { return from_order_key(lowest_key); }    // NaN when a negative NaN was added
  float highest() const { return from_order_key(highest_key); }  // NaN when a positive NaN was added
};

// out[i] = in[i] between lowest and highest; NaN stays. `out` may be `in`, but not overlap it otherwise.
void clip_values(const float* in, size_t count, float lowest, float highest, float* out);

// The smallest |value|; infinity of an empty list.
float smallest_magnitude(std::span<const float> values);

}  // namespace seqto::internal
