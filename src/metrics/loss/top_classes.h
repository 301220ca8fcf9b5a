// The classes with the highest scores.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace seqto {

// At most five classes, best first, in numpy's order argsort(kind="stable")[::-1]: of equal scores the higher
// index comes first, and NaN comes before everything.
struct TopClasses {
  std::array<int64_t, 5> classes{};
  size_t count = 0;

  std::span<const int64_t> list() const { return {classes.data(), count}; }
};
TopClasses top_classes(std::span<const float> scores);

bool has_nan(std::span<const float> values);

}  // namespace seqto
