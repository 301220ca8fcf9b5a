#include "quantization/arithmetic/nbits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
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
  const auto blocks = static_cast<size_t>(runs * result.blocks);
  result.codes.resize(blocks * static_cast<size_t>(block_size));
  result.scale.resize(blocks), result.zero_point.resize(blocks);
  return result;
}

}  // namespace

NbitsRuns quantize_nbits(Floats values, int64_t runs, const NbitsRule& rule) {
  const size_t length = values.count / static_cast<size_t>(runs), block_size = static_cast<size_t>(rule.block_size);
  NbitsRuns result = empty_runs(runs, static_cast<int64_t>(length), rule.block_size);
  const auto blocks = static_cast<size_t>(result.blocks);
  const Kernels& kernels = *supported_kernels().sets[0];
  in_parts(static_cast<size_t>(runs) * blocks, steps_worth_a_thread(block_size), [&](size_t first, size_t last) {
    for (size_t b = first; b < last; ++b) {
      const size_t begin = b % blocks * block_size;
      const Floats block = values.part(b / blocks * length + begin, std::min(block_size, length - begin));
      const auto [low, high] = ends_of(block);
      const BlockParams p = block_params(low, high, rule);
      kernels.quantize_block(block.data, result.codes.data() + b * block_size, block.count, p.reciprocal, p.zero_point,
                             {p.highest, rule.round_first});
      result.scale[b] = p.scale, result.zero_point[b] = static_cast<uint8_t>(p.zero_point);
    }
  });
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

}  // namespace

NbitsRuns quantize_nbits_columns(Floats matrix, int64_t columns, const NbitsRule& rule) {
  const auto n = static_cast<size_t>(columns), block_size = static_cast<size_t>(rule.block_size);
  const size_t k = matrix.count / n;
  NbitsRuns result = empty_runs(columns, static_cast<int64_t>(k), rule.block_size);
  const auto blocks = static_cast<size_t>(result.blocks);
  const Kernels& kernels = *supported_kernels().sets[0];
  const size_t strips = (n + Strip::kWidth - 1) / Strip::kWidth;
  in_parts(strips, steps_worth_a_thread(k * Strip::kWidth), [&](size_t begin, size_t end) {
    Strip strip;
    strip.codes.resize(block_size * Strip::kWidth);
    for (size_t step = begin * blocks; step < end * blocks; ++step) {
      const size_t first = step / blocks * Strip::kWidth, b = step % blocks;
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
      for (size_t r = 0; r < rows; ++r)
        kernels.quantize_block_columns(block + r * n, strip.codes.data() + r * Strip::kWidth, width, strip.reciprocal,
                                       strip.zero_point, {strip.highest, rule.round_first});
      for (size_t c = 0; c < width; ++c) {
        uint8_t* __restrict out = result.codes.data() + ((first + c) * blocks + b) * block_size;
        const uint8_t* __restrict in = strip.codes.data() + c;
        for (size_t r = 0; r < rows; ++r) out[r] = in[r * Strip::kWidth];
      }
    }
  });
  return result;
}

NbitsRuns quantize_gather(Floats values, int64_t runs, const NbitsRule& rule) {
  const int64_t length = static_cast<int64_t>(values.count) / runs, block_size = rule.block_size;
  const auto step = [&](float x) { return rule.halves ? to_half_and_back(x) : x; };
  const auto middle = static_cast<float>(1 << (rule.bits - 1)), highest = 2 * middle - 1;
  NbitsRuns result = empty_runs(runs, length, block_size);
  result.codes.resize(values.count);
  const auto blocks = static_cast<size_t>(result.blocks);
  in_parts(static_cast<size_t>(runs) * blocks, steps_worth_a_thread(block_size), [&](size_t first, size_t last) {
    for (size_t b = first; b < last; ++b) {
      const int64_t run = b / blocks, begin = b % blocks * block_size;
      const Floats block = values.part(static_cast<size_t>(run * length + begin),
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
      gather_codes(block, result.codes.data() + run * length + begin, {scale, 0, zero, highest}, rule);
      result.scale[b] = scale, result.zero_point[b] = static_cast<uint8_t>(zero);
    }
  });
  return result;
}

std::vector<uint8_t> pack_bits(std::span<const uint8_t> codes, int64_t rows, int bits, uint8_t fill) {
  if (bits == 8) return {codes.begin(), codes.end()};
  size_t per_byte = 8 / static_cast<size_t>(bits), count = static_cast<size_t>(rows), length = codes.size() / count;
  if (bits == 4 && length % 2 == 0) return packed_pairs(codes);
  size_t packed_length = (length + per_byte - 1) / per_byte;
  std::vector<uint8_t> packed(count * packed_length);
  for (size_t r = 0; r < count; ++r)
    for (size_t i = 0; i < packed_length * per_byte; ++i) {
      auto shift = (i % per_byte) * static_cast<size_t>(bits);
      uint8_t code = i < length ? codes[r * length + i] : fill;
      packed[r * packed_length + i / per_byte] |= static_cast<uint8_t>(code << shift);
    }
  return packed;
}

}  // namespace seqto::internal
