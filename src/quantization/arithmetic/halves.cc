#include "quantization/arithmetic/halves.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

// model/float16.h's float_to_half without branches, so that the compiler makes a vector loop of it.
inline uint16_t rounded_to_half(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t half = magnitude < 0x38800000u ? small : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? 0x7e00u : half;
  return static_cast<uint16_t>(((bits >> 16) & 0x8000u) | half);
}

struct Extremes {
  float largest = 0, smallest = std::numeric_limits<float>::max();  // of finite, nonzero magnitudes
};
Extremes extremes(std::span<const float> values) {
  Extremes e;
  constexpr float kMax = std::numeric_limits<float>::max();
  for (float v : values) {
    float magnitude = std::fabs(v);
    float finite = magnitude <= kMax ? magnitude : 0.0f;
    e.largest = finite > e.largest ? finite : e.largest;
    float nonzero = magnitude > 0.0f ? magnitude : kMax;
    e.smallest = nonzero < e.smallest ? nonzero : e.smallest;
  }
  return e;
}

float into_range(float value, float lowest, float highest) {
  float magnitude = std::fabs(value);
  if (!(magnitude > 0) || !std::isfinite(magnitude)) return value;
  return std::copysign(std::min(std::max(magnitude, lowest), highest), value);
}

}  // namespace

HalfTensor to_halves(const std::string& name, const Tensor& tensor, const Float16Options& options) {
  auto values = tensor.values<float>();
  Extremes found = extremes(values);
  float highest = options.max_finite_val, lowest = options.compute ? options.min_positive_val : 0.0f;
  std::vector<uint16_t> halves(values.size());
  if (found.largest <= highest && found.smallest >= lowest) {
    for (size_t i = 0; i < values.size(); ++i) halves[i] = rounded_to_half(values[i]);
    return {Tensor::from(DataType::kFloat16, tensor.dims(), std::move(halves)), {}};
  }
  int64_t beyond = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    beyond += std::isfinite(values[i]) && std::fabs(values[i]) > highest;
    halves[i] = rounded_to_half(into_range(values[i], lowest, highest));
  }
  auto text = fmt::format("{} of {} values of constant '{}' are larger than {}, up to {}", beyond, values.size(), name,
                          highest, found.largest);
  if (beyond > 0 && options.strict)
    throw Error(
        Code::kInvalidInput,
        fmt::format("[float16] {}; values in float16's range were expected; leave that layer in float32", text));
  return {Tensor::from(DataType::kFloat16, tensor.dims(), std::move(halves)),
          beyond > 0 ? text + " and became it" : std::string()};
}

}  // namespace seqto::internal
