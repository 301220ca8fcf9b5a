// Each set of kernels that this processor has gives the bits of the portable one, and that one the bits of the formula.
#include "quantization/arithmetic/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "quantization/arithmetic/channels.h"

namespace seqto::internal {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<const Kernels*> sets() {
  KernelSets all = supported_kernels();
  return {all.sets, all.sets + all.count};
}

// Any bits; values near each boundary between two codes, one step of float to either side; special values.
std::vector<float> nasty_values(float scale, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values{0.0f, -0.0f, kInfinity, -kInfinity, kNaN, -kNaN, 1e-45f, -1e-45f, 3e38f, -3e38f};
  for (int i = 0; i < 2000; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (int code = -600; code < 600; ++code) {
    float boundary = (static_cast<float>(code) + 0.5f) * scale;
    for (float x : {boundary, std::nextafter(boundary, kInfinity), std::nextafter(boundary, -kInfinity)})
      values.push_back(x);
  }
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

struct Case {
  float scale;
  int32_t zero_point;
  CodeRange range;
  bool wide;
};
const Case kCases[] = {
    {0.1f, 0, {-128, 127}, false},     {0.0123f, 0, {-8, 7}, false},     {1.0f / 3, 77, {0, 255}, false},
    {7e-3f, -128, {-128, 127}, false}, {1e-30f, 255, {0, 255}, false},   {1e30f, 3, {-128, 127}, false},
    {1e-40f, 0, {-128, 127}, false},   {1.0f, 12, {0, 15}, false},       {0.01f, 0, {-32768, 32767}, true},
    {3.0f, 40000, {0, 65535}, true},   {1e-4f, 65535, {0, 65535}, true}, {0.7f, -32768, {-32768, 32767}, true}};

TEST(Kernels, PortableIsTheFormula) {
  for (const Case& c : kCases) {
    std::vector<float> values = nasty_values(c.scale, 1);
    std::vector<uint16_t> codes(values.size());
    portable_kernels().quantize16(values.data(), codes.data(), values.size(), c.scale, c.zero_point, c.range);
    for (size_t i = 0; i < values.size(); ++i) {
      float x = std::nearbyint(values[i] / c.scale) + static_cast<float>(c.zero_point);
      x = std::min(std::max(x, static_cast<float>(c.range.lowest)), static_cast<float>(c.range.highest));
      int32_t expected = std::isnan(values[i] / c.scale) ? 0 : static_cast<int32_t>(x);
      ASSERT_EQ(codes[i], static_cast<uint16_t>(expected)) << values[i] << " / " << c.scale;
    }
  }
}

TEST(Kernels, EverySetHasTheBitsOfThePortableOne) {
  const Kernels& portable = portable_kernels();
  for (const Kernels* set : sets())
    for (const Case& c : kCases)
      // Lengths around the widths of the vectors, from addresses that are not aligned.
      for (size_t n : {size_t{0}, size_t{1}, size_t{31}, size_t{32}, size_t{33}, size_t{63}, size_t{64}, size_t{65},
                       size_t{5000}}) {
        std::vector<float> values = nasty_values(c.scale, static_cast<uint32_t>(n));
        const float* in = values.data() + 1;
        std::vector<float> scales(n, c.scale);
        std::vector<int32_t> zeros(n, c.zero_point);
        for (size_t i = 0; i < n; i += 3) scales[i] = c.scale * 1.7f, zeros[i] = c.range.lowest + 5;
        auto same = [&](auto run, auto columns, auto run_portable, auto columns_portable, auto zero_code) {
          std::vector<decltype(zero_code)> got(n + 1, 77), expected(n + 1, 77);
          run(in, got.data(), n, c.scale, c.zero_point, c.range);
          run_portable(in, expected.data(), n, c.scale, c.zero_point, c.range);
          EXPECT_EQ(got, expected) << set->name << " scale " << c.scale << " n " << n;
          columns(in, got.data(), n, scales.data(), zeros.data(), c.range);
          columns_portable(in, expected.data(), n, scales.data(), zeros.data(), c.range);
          EXPECT_EQ(got, expected) << set->name << " columns, scale " << c.scale << " n " << n;
        };
        if (c.wide)
          same(set->quantize16, set->quantize_columns16, portable.quantize16, portable.quantize_columns16, uint16_t{});
        else same(set->quantize8, set->quantize_columns8, portable.quantize8, portable.quantize_columns8, uint8_t{});
      }
}

// std::round() has the same halves.
TEST(Kernels, BlocksAreRoundedAwayFromZero) {
  for (const Kernels* set : sets())
    for (float scale : {0.1f, 1.0f / 3, 7e-3f, -0.25f})
      for (bool round_first : {false, true})
        for (float highest : {15.0f, 255.0f})
          for (size_t n : {0, 1, 31, 33, 64, 65, 4000}) {
            const std::vector<float> values = nasty_values(scale, static_cast<uint32_t>(n));
            const float* in = values.data() + 1;
            std::vector<float> reciprocals(n, 1 / scale), zeros(n, 7.0f);
            std::vector<uint8_t> expected(n + 1, 77), got = expected;
            for (size_t i = 0; i < n; ++i) {
              const float x = in[i] * reciprocals[i];
              float code = round_first ? std::round(x) + zeros[i] : std::round(std::clamp(x + zeros[i], 0.0f, highest));
              code = std::isnan(x) ? (round_first && !std::signbit(x) ? highest : 0) : std::clamp(code, 0.0f, highest);
              expected[i] = static_cast<uint8_t>(code);
            }
            set->quantize_block(in, got.data(), n, 1 / scale, 7, {highest, round_first});
            EXPECT_EQ(got, expected) << set->name << " scale " << scale << " n " << n;
            set->quantize_block_columns(in, got.data(), n, reciprocals.data(), zeros.data(), {highest, round_first});
            EXPECT_EQ(got, expected) << set->name << " columns, scale " << scale << " n " << n;
          }
}

TEST(Kernels, RangesPassOverNaN) {
  for (const Kernels* set : sets())
    for (size_t n : {size_t{0}, size_t{1}, size_t{7}, size_t{64}, size_t{200}, size_t{5000}}) {
      std::vector<float> values = nasty_values(1, static_cast<uint32_t>(n));
      values.resize(n);
      float low = kInfinity, high = -kInfinity;
      for (float x : values)
        if (!std::isnan(x)) low = std::min(low, x), high = std::max(high, x);
      float got_low = kInfinity, got_high = -kInfinity;
      set->min_max(values.data(), n, &got_low, &got_high);
      EXPECT_EQ(got_low, low) << set->name << " n " << n;
      EXPECT_EQ(got_high, high) << set->name << " n " << n;

      std::vector<float> lows(n, -1), highs(n, 1);
      set->min_max_columns(values.data(), n, lows.data(), highs.data());
      for (size_t i = 0; i < n; ++i) {
        EXPECT_EQ(lows[i], std::isnan(values[i]) ? -1 : std::min(values[i], -1.0f));
        EXPECT_EQ(highs[i], std::isnan(values[i]) ? 1 : std::max(values[i], 1.0f));
      }
    }
}

// Every way through the shapes, against one loop over the elements.
TEST(Channels, AnyShapeAndAxis) {
  struct Shape {
    std::vector<int64_t> dims;
    int64_t axis;
  };
  for (const Shape& s : {Shape{{3, 5, 7}, 0}, Shape{{3, 5, 7}, 1}, Shape{{3, 5, 7}, 2}, Shape{{2, 3, 100}, 1},
                         Shape{{5000, 3}, 0}, Shape{{3, 5000}, 1}, Shape{{1, 1}, 0}, Shape{{4, 0}, 1}, Shape{{0}, 0}}) {
    size_t count = 1, inner = 1, channels = static_cast<size_t>(s.dims[static_cast<size_t>(s.axis)]);
    for (size_t d = 0; d < s.dims.size(); ++d) {
      count *= static_cast<size_t>(s.dims[d]);
      if (static_cast<int64_t>(d) > s.axis) inner *= static_cast<size_t>(s.dims[d]);
    }
    std::mt19937 random(3);
    std::vector<float> values(count);
    for (float& x : values) x = std::normal_distribution<float>()(random);
    std::vector<float> low(channels, kInfinity), high(channels, -kInfinity);
    for (size_t i = 0; i < count; ++i) {
      size_t c = i / inner % channels;
      low[c] = std::min(low[c], values[i]), high[c] = std::max(high[c], values[i]);
    }
    ChannelRanges ranges = channel_ranges(values, strides(s.dims, s.axis));
    EXPECT_EQ(ranges.low, low);
    EXPECT_EQ(ranges.high, high);

    QuantParams params{DataType::kInt8, {}, {}, s.axis};
    for (size_t c = 0; c < channels; ++c)
      params.scale.push_back(0.01f + static_cast<float>(c % 7) * 0.003f),
          params.zero_point.push_back(static_cast<int>(c % 5));
    Tensor codes = quantize_channels(values, s.dims, params);
    for (size_t i = 0; i < count; ++i) {
      size_t c = i / inner % channels;
      float x = std::nearbyint(values[i] / params.scale[c]) + static_cast<float>(params.zero_point[c]);
      ASSERT_EQ(codes.values<int8_t>()[i], std::clamp(x, -128.0f, 127.0f)) << i;
    }
  }
}

TEST(Channels, FourBitCodesArePackedLowHalfFirst) {
  QuantParams params{DataType::kInt4, {1.0f}, {0}, {}};
  std::vector<float> values{1, -2, 7.6f, -100, 3};
  Tensor codes = quantize_channels(values, {5}, params);
  ASSERT_EQ(codes.bytes().size(), 3u);
  std::vector<double> got;
  for (int64_t i = 0; i < 5; ++i) got.push_back(element(codes, i));
  EXPECT_EQ(got, (std::vector<double>{1, -2, 7, -8, 3}));
}

}  // namespace
}  // namespace seqto::internal
