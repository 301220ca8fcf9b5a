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

struct Ends {
  float low = std::numeric_limits<float>::max(), high = std::numeric_limits<float>::lowest();
};

Ends ends_of(Floats block) {
  Ends ends;
  supported_kernels().sets[0]->min_max(block.data, block.count, &ends.low, &ends.high);
  // Of zeros the first one's sign counts.
  if (ends.low == 0.0f && ends.high == 0.0f) ends.low = ends.high = block.data[0];
  return ends;
}

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
inline uint8_t code_of(float value, float reciprocal, float zero_point, float highest, bool round_first) {
  float x = value * reciprocal;
  float magnitude = std::min(std::fabs(x), highest + 1.0f);
  if (round_first) x = std::copysign(rounded(magnitude), x);
  x += zero_point;
  x = x > 0.0f ? x : 0.0f;
  x = x < highest ? x : highest;
  return static_cast<uint8_t>(round_first ? x : rounded(x));
}

void codes_of(Floats block, const BlockParams& p, bool round_first, uint8_t* codes) {
  const float reciprocal = p.reciprocal, zero_point = p.zero_point, highest = p.highest;
  for (size_t i = 0; i < block.count; ++i)
    codes[i] = code_of(block.data[i], reciprocal, zero_point, highest, round_first);
}

// Halves to even, of |x| < 2^22: the sum's last bit counts ones.
inline float to_even(float x) {
  constexpr float kOnes = 12582912;  // 1.5 * 2^23
  return (x + kOnes) - kOnes;
}

// Symmetric codes are rounded before the middle is added, others after the zero point is. Codes begin and end at
// integers, so that cutting off before rounding gives the same ones.
void gather_codes(Floats block, uint8_t* codes, const BlockParams& p, const NbitsRule& rule) {
  if (p.scale == 0.0f) {
    std::fill_n(codes, block.count, static_cast<uint8_t>(1 << (rule.bits - 1)));
    return;
  }
  const FileFloat* in = block.data;
  const float scale = p.scale, before = rule.symmetric ? 0 : p.zero_point, after = rule.symmetric ? p.zero_point : 0;
  // By value, or each code that is stored could change them.
  const auto code = [lowest = -after, highest = p.highest - after, after](float x) {
    x = x > lowest ? x : lowest;
    x = x < highest ? x : highest;
    return static_cast<uint8_t>(static_cast<int32_t>(to_even(x) + after));
  };
  if (rule.halves) {
    for (size_t i = 0; i < block.count; ++i)
      codes[i] = code(to_half_and_back(to_half_and_back(in[i] / scale) + before));
  } else {
    for (size_t i = 0; i < block.count; ++i) codes[i] = code(in[i] / scale + before);
  }
}

NbitsRuns empty_runs(int64_t runs, int64_t length, int64_t block_size) {
  NbitsRuns result{runs, (length + block_size - 1) / block_size, block_size, {}, {}, {}};
  result.codes.resize(static_cast<size_t>(runs * result.blocks * block_size));
  result.scale.reserve(static_cast<size_t>(runs * result.blocks));
  result.zero_point.reserve(static_cast<size_t>(runs * result.blocks));
  return result;
}

// The next of the result's runs.
void add_run(Floats run, const NbitsRule& rule, NbitsRuns& result) {
  const auto block_size = static_cast<size_t>(rule.block_size);
  for (size_t begin = 0; begin < run.count; begin += block_size) {
    const Floats block = run.part(begin, std::min(block_size, run.count - begin));
    const auto [low, high] = ends_of(block);
    const BlockParams p = block_params(low, high, rule);
    uint8_t* codes = result.codes.data() + result.scale.size() * block_size;
    codes_of(block, p, rule.round_first, codes);
    result.scale.push_back(p.scale);
    result.zero_point.push_back(static_cast<uint8_t>(p.zero_point));
  }
}

}  // namespace

NbitsRuns quantize_nbits(Floats values, int64_t runs, const NbitsRule& rule) {
  const size_t length = values.count / static_cast<size_t>(runs);
  NbitsRuns result = empty_runs(runs, static_cast<int64_t>(length), rule.block_size);
  for (size_t begin = 0; begin < values.count; begin += length) add_run(values.part(begin, length), rule, result);
  return result;
}

namespace {

// The columns of a matrix next to each other, one block of each at a time: a row of them lies in few lines of the
// cache.
struct Strip {
  static constexpr size_t kWidth = 64;
  float low[kWidth], high[kWidth], reciprocal[kWidth], zero_point[kWidth], highest = 0;
  std::vector<uint8_t> codes;  // [rows of a block, kWidth]
};

void codes_of_row(const FileFloat* row, const Strip& strip, size_t width, bool round_first, uint8_t* __restrict codes) {
  const float* __restrict reciprocal = strip.reciprocal, * __restrict zero_point = strip.zero_point;
  const float highest = strip.highest;
  for (size_t c = 0; c < width; ++c) codes[c] = code_of(row[c], reciprocal[c], zero_point[c], highest, round_first);
}

}  // namespace

NbitsRuns quantize_nbits_columns(Floats matrix, int64_t columns, const NbitsRule& rule) {
  const auto n = static_cast<size_t>(columns), block_size = static_cast<size_t>(rule.block_size);
  const size_t k = matrix.count / n;
  NbitsRuns result = empty_runs(columns, static_cast<int64_t>(k), rule.block_size);
  const auto blocks = static_cast<size_t>(result.blocks);
  result.scale.resize(n * blocks), result.zero_point.resize(n * blocks);
  Strip strip;
  strip.codes.resize(block_size * Strip::kWidth);
  const Kernels& kernels = *supported_kernels().sets[0];
  for (size_t first = 0; first < n; first += Strip::kWidth)
    for (size_t b = 0; b < blocks; ++b) {
      const size_t width = std::min(Strip::kWidth, n - first), rows = std::min(block_size, k - b * block_size);
      const FileFloat* block = matrix.data + b * block_size * n + first;
      std::ranges::fill(strip.low, std::numeric_limits<float>::max());
      std::ranges::fill(strip.high, std::numeric_limits<float>::lowest());
      for (size_t r = 0; r < rows; ++r) kernels.min_max_columns(block + r * n, width, strip.low, strip.high);
      for (size_t c = 0; c < width; ++c) {
        const BlockParams p = block_params(strip.low[c], strip.high[c], rule);
        const size_t at = (first + c) * blocks + b;
        result.scale[at] = p.scale, result.zero_point[at] = static_cast<uint8_t>(p.zero_point);
        strip.reciprocal[c] = p.reciprocal, strip.zero_point[c] = p.zero_point;
        strip.highest = p.highest;
      }
      for (size_t r = 0; r < rows; ++r) {
        uint8_t* out = strip.codes.data() + r * Strip::kWidth;
        codes_of_row(block + r * n, strip, width, rule.round_first, out);
      }
      for (size_t c = 0; c < width; ++c) {
        uint8_t* out = result.codes.data() + ((first + c) * blocks + b) * block_size;
        for (size_t r = 0; r < rows; ++r) out[r] = strip.codes[r * Strip::kWidth + c];
      }
    }
  return result;
}

NbitsRuns quantize_gather(Floats values, int64_t runs, const NbitsRule& rule) {
  const int64_t length = static_cast<int64_t>(values.count) / runs, block_size = rule.block_size;
  const auto step = [&](float x) { return rule.halves ? to_half_and_back(x) : x; };
  const auto middle = static_cast<float>(1 << (rule.bits - 1)), highest = 2 * middle - 1;
  NbitsRuns result{runs, (length + block_size - 1) / block_size, block_size, {}, {}, {}};
  result.codes.resize(values.count);
  for (int64_t r = 0; r < runs; ++r)
    for (int64_t begin = 0; begin < length; begin += block_size) {
      const Floats block = values.part(static_cast<size_t>(r * length + begin),
                                       static_cast<size_t>(std::min(block_size, length - begin)));
      auto [low, high] = ends_of(block);
      float scale = 0, zero = middle;
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
