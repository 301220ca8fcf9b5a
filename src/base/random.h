// Draws that are the same with every standard library: its distributions differ, its engines do not.
#pragma once

#include <cstdint>
#include <random>

namespace seqto::internal {

// Below `limit`, each value alike.
inline uint64_t below(uint64_t limit, std::mt19937_64& engine) {
  const uint64_t unfair = (0 - limit) % limit;  // 2^64 mod limit: so many values too many
  for (;;) {
    if (const uint64_t value = engine(); value >= unfair) return value % limit;
  }
}

}  // namespace seqto::internal
