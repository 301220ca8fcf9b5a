// Room: base. The loop behind Extremes::add, compiled once per instruction set.
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

using ExtremesFunction = void (*)(const float* values, size_t count, Extremes& result);
// The fastest that this machine can run.
ExtremesFunction choose_extremes();

}  // namespace seqto::internal
