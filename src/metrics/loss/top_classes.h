// The classes with the highest scores.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace seqto {

// Which of equal scores comes first.
enum class Ties {
  kFirst,  // the lower index, as in ArgMax, numpy and torch
  kLast,   // the higher one: numpy's argsort(kind="stable")[::-1], by which the published procedure ranks
};

// At most five classes, best first. NaN comes before everything.
struct TopClasses {
  std::array<int64_t, 5> classes{};
  size_t count = 0;

  std::span<const int64_t> list() const { return {classes.data(), count}; }
};
TopClasses top_classes(std::span<const float> scores, Ties ties = Ties::kFirst);

bool has_nan(std::span<const float> values);

}  // namespace seqto
