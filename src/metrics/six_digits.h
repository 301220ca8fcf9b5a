// Per-sample values keep six digits, in memory as in the study: a resumed search decides by the same numbers.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace seqto {

inline double six_digits(double value) {
  return std::isfinite(value) ? std::stod(fmt::format("{:.6g}", value)) : value;
}

}  // namespace seqto
