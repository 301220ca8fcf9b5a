// Room: base. Sums in numpy's order, so that results can be compared to the bit.
#pragma once

#include <cstddef>
#include <span>

namespace seqto::internal {

// Pairwise, in leaves of at most 128 numbers that are added in eight lanes.
template <class T>
T pairwise_sum(std::span<const T> v) {
  const size_t n = v.size();
  if (n < 8) {
    T sum = 0;
    for (T x : v) sum += x;
    return sum;
  }
  if (n <= 128) {
    T lane[8];
    for (size_t k = 0; k < 8; ++k) lane[k] = v[k];
    size_t i = 8;
    for (; i + 8 <= n; i += 8)
      for (size_t k = 0; k < 8; ++k) lane[k] += v[i + k];
    T sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    for (; i < n; ++i) sum += v[i];
    return sum;
  }
  size_t left = n / 2;
  left -= left % 8;
  return pairwise_sum(v.first(left)) + pairwise_sum(v.subspan(left));
}

}  // namespace seqto::internal
