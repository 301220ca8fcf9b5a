#include "quantization/arithmetic/nbits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/float16.h"

namespace seqto::internal {
namespace {

struct BlockParams {
  float scale = 0, reciprocal = 0;
  float zero_point = 0, highest = 0;  // codes
};

float to_half_and_back(float x) { return half_to_float(float_to_half(x)); }

BlockParams block_params(float low, float high, const NbitsRule& rule) {
  const auto middle = static_cast<float>(1 << (rule.bits - 1)), highest = static_cast<float>((1 << rule.bits) - 1);
  BlockParams p{.highest = highest};
  if (rule.symmetric) {
    // The value of larger magnitude gets the lowest code, so that the whole range is used.
    p.scale = (std::fabs(high) > std::fabs(low) ? high : low) / -middle;
    p.zero_point = middle;
  } else {
    low = std::min(low, 0.0f), high = std::max(high, 0.0f);
    p.scale = (high - low) / highest;
    float exact = p.scale != 0.0f ? 0.0f - low / p.scale : low;
    p.zero_point = std::round(std::clamp(exact, 0.0f, highest));
  }
  if (rule.halves) p.scale = to_half_and_back(p.scale);
  p.reciprocal = p.scale != 0.0f ? 1.0f / p.scale : 0.0f;
  return p;
}

// Halves away from zero. Adding 0.5 and cutting off would round the largest float below 0.5 up.
inline float rounded(float magnitude) {
  auto whole = static_cast<float>(static_cast<int32_t>(magnitude));
  return whole + (magnitude - whole >= 0.5f ? 1.0f : 0.0f);
}

// Exact to the kernels: MatMulNBits rounds behind the zero point, the QDQ form before it.
void quantize_block(const float* in, uint8_t* codes, int64_t n, const BlockParams& p, bool round_first) {
  const float highest = p.highest;
  for (int64_t i = 0; i < n; ++i) {
    float x = in[i] * p.reciprocal;
    float magnitude = std::min(std::fabs(x), highest + 1.0f);
    if (round_first) x = std::copysign(rounded(magnitude), x);
    x += p.zero_point;
    x = x > 0.0f ? x : 0.0f;
    x = x < highest ? x : highest;
    codes[i] = static_cast<uint8_t>(round_first ? x : rounded(x));
  }
}

// Halves to even, of |x| < 2^22: the sum's last bit counts ones.
inline float to_even(float x) {
  constexpr float kOnes = 12582912;  // 1.5 * 2^23
  return (x + kOnes) - kOnes;
}

// Symmetric codes are rounded before the middle is added, others after the zero point is. What is far beyond the codes
// may be cut off first.
void gather_codes(std::span<const float> block, uint8_t* codes, const BlockParams& p, const NbitsRule& rule) {
  constexpr float kFar = 1024;
  const auto n = static_cast<int64_t>(block.size());
  const float scale = p.scale, zero = p.zero_point, highest = p.highest;
  const auto code = [&](float x) {
    x = x > 0.0f ? x : 0.0f;
    return static_cast<uint8_t>(static_cast<int32_t>(x < highest ? x : highest));
  };
  const auto near = [](float x) {
    x = x > -kFar ? x : -kFar;
    return x < kFar ? x : kFar;
  };
  if (scale == 0.0f) {
    std::fill_n(codes, n, code(static_cast<float>(1 << (rule.bits - 1))));
  } else if (rule.halves) {
    for (int64_t i = 0; i < n; ++i) {
      const float x = to_half_and_back(block[i] / scale);
      codes[i] = code(rule.symmetric ? to_even(near(x)) + zero : to_even(near(to_half_and_back(x + zero))));
    }
  } else if (rule.symmetric) {
    for (int64_t i = 0; i < n; ++i) codes[i] = code(to_even(near(block[i] / scale)) + zero);
  } else {
    for (int64_t i = 0; i < n; ++i) codes[i] = code(to_even(near(block[i] / scale + zero)));
  }
}

}  // namespace

NbitsRuns quantize_nbits(std::span<const float> values, int64_t runs, const NbitsRule& rule) {
  const int64_t length = std::ssize(values) / runs, block_size = rule.block_size;
  NbitsRuns result{runs, (length + block_size - 1) / block_size, block_size, {}, {}, {}};
  result.codes.resize(static_cast<size_t>(runs * result.blocks * block_size));
  for (int64_t r = 0; r < runs; ++r)
    for (int64_t b = 0; b < result.blocks; ++b) {
      const float* in = values.data() + r * length + b * block_size;
      int64_t n = std::min(block_size, length - b * block_size);
      float low = std::numeric_limits<float>::max(), high = std::numeric_limits<float>::lowest();
      for (int64_t i = 0; i < n; ++i) {
        low = in[i] < low ? in[i] : low;
        high = in[i] > high ? in[i] : high;
      }
      BlockParams p = block_params(low, high, rule);
      quantize_block(in, result.codes.data() + (r * result.blocks + b) * block_size, n, p, rule.round_first);
      result.scale.push_back(p.scale);
      result.zero_point.push_back(static_cast<uint8_t>(p.zero_point));
    }
  return result;
}

NbitsRuns quantize_gather(std::span<const float> values, int64_t runs, const NbitsRule& rule) {
  const int64_t length = std::ssize(values) / runs, block_size = rule.block_size;
  const auto step = [&](float x) { return rule.halves ? to_half_and_back(x) : x; };
  const auto middle = static_cast<float>(1 << (rule.bits - 1)), highest = 2 * middle - 1;
  NbitsRuns result{runs, (length + block_size - 1) / block_size, block_size, {}, {}, {}};
  result.codes.resize(values.size());
  for (int64_t r = 0; r < runs; ++r)
    for (int64_t begin = 0; begin < length; begin += block_size) {
      auto block = values.subspan(static_cast<size_t>(r * length + begin),
                                  static_cast<size_t>(std::min(block_size, length - begin)));
      auto [low_at, high_at] = std::minmax_element(block.begin(), block.end());
      float low = *low_at, high = *high_at, scale = 0, zero = middle;
      if (rule.symmetric) {
        scale = step((std::fabs(high) > std::fabs(low) ? high : low) / -middle);
      } else {
        low = std::min(low, 0.0f), high = std::max(high, 0.0f);
        scale = step(step(high - low) / highest);
        if (scale != 0.0f) zero = std::clamp(std::nearbyint(step(-low / scale)), 0.0f, highest);
      }
      gather_codes(block, result.codes.data() + r * length + begin, {scale, 0, zero, highest}, rule);
      result.scale.push_back(scale);
      result.zero_point.push_back(static_cast<uint8_t>(zero));
    }
  return result;
}

std::vector<uint8_t> pack_bits(std::span<const uint8_t> codes, int64_t rows, int bits, uint8_t fill) {
  if (bits == 8) return {codes.begin(), codes.end()};
  size_t per_byte = 8 / static_cast<size_t>(bits), count = static_cast<size_t>(rows), length = codes.size() / count;
  size_t packed_length = (length + per_byte - 1) / per_byte;
  std::vector<uint8_t> packed(count * packed_length);
  if (bits == 4 && length % 2 == 0) {
    for (size_t i = 0; i < packed.size(); ++i)
      packed[i] = static_cast<uint8_t>(codes[2 * i] | static_cast<uint8_t>(codes[2 * i + 1] << 4));
    return packed;
  }
  for (size_t r = 0; r < count; ++r)
    for (size_t i = 0; i < packed_length * per_byte; ++i) {
      auto shift = (i % per_byte) * static_cast<size_t>(bits);
      uint8_t code = i < length ? codes[r * length + i] : fill;
      packed[r * packed_length + i / per_byte] |= static_cast<uint8_t>(code << shift);
    }
  return packed;
}

}  // namespace seqto::internal
