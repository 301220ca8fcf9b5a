// Room: model. IEEE half precision to and from float, round to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace seqto {

inline float half_to_float(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1f;
  uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  float small = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -small : small;
}

inline uint16_t float_to_half(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x38800000u) {
    // Adding 0.5 puts a subnormal half's bits at the end of the mantissa, rounded by the FPU.
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

// One rounding: the float in between keeps what is cut off in its last bit.
inline uint16_t double_to_half(double value) {
  float between = static_cast<float>(value);
  if (static_cast<double>(between) != value && std::isfinite(between)) {
    if (std::fabs(static_cast<double>(between)) > std::fabs(value)) between = std::nextafter(between, 0.0f);
    between = std::bit_cast<float>(std::bit_cast<uint32_t>(between) | 1u);
  }
  return float_to_half(between);
}

}  // namespace seqto
