#include "base/extremes.h"

#include "base/extremes_loop.h"

namespace seqto::internal {

void Extremes::add(std::span<const float> values) {
  static const ExtremesFunction add_all = choose_extremes();
  add_all(values.data(), values.size(), *this);
}

float smallest_magnitude(std::span<const float> values) {
  uint32_t smallest = std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity());
  for (float v : values) {
    uint32_t magnitude = std::bit_cast<uint32_t>(v) & 0x7fffffffu;
    smallest = magnitude < smallest ? magnitude : smallest;
  }
  return std::bit_cast<float>(smallest);
}

}  // namespace seqto::internal
