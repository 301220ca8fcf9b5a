#include "base/extremes.h"

#include "base/extremes_loop.h"

namespace seqto::internal {

namespace {

const RangeFunctions& range_functions() {
  static const RangeFunctions functions = choose_range_functions();
  return functions;
}

}  // namespace

void Extremes::add(std::span<const float> values) { range_functions().extremes(values.data(), values.size(), *this); }

void clip_values(const float* in, size_t count, float lowest, float highest, float* out) {
  range_functions().clip(in, count, lowest, highest, out);
}

float smallest_magnitude(std::span<const float> values) {
  uint32_t smallest = std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity());
  range_functions().magnitude(values.data(), values.size(), smallest);
  return std::bit_cast<float>(smallest);
}

}  // namespace seqto::internal
