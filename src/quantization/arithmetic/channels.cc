#include "quantization/arithmetic/channels.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <memory>

#include "base/parallel.h"

namespace seqto::internal {
namespace {

// Channels with fewer consecutive values than this are taken many at a time, as columns with a scale each.
constexpr size_t kShortRun = 64;
// Columns taken at a time: their scales and ranges stay in the second-level cache. Fewer would mean shorter runs of
// memory, which cost more than that cache does.
constexpr size_t kBlock = 16384;

// Calls f(first channel, channels) for blocks of at most about kBlock columns, side by side.
template <class F>
void for_each_block(Strides s, F f) {
  const size_t step = std::max<size_t>(1, kBlock / std::max<size_t>(1, s.inner));
  const size_t least = std::max(kShortRun, steps_worth_a_thread(s.outer * s.inner));
  in_parts(s.channels, least, [&](size_t begin, size_t end) {
    for (size_t c = begin; c < end; c += step) f(c, std::min(step, end - c));
  });
}

// Each value of `from` `times` times: the parameters of channels as those of columns.
template <class T>
std::vector<T> repeated(std::span<const T> from, size_t times) {
  std::vector<T> out;
  out.reserve(from.size() * times);
  for (T x : from) out.insert(out.end(), times, x);
  return out;
}

void short_ranges(Floats values, Strides s, const Kernels& kernels, ChannelRanges& ranges) {
  for_each_block(s, [&](size_t first, size_t channels) {
    const size_t columns = channels * s.inner;
    std::vector<float> low(columns, std::numeric_limits<float>::infinity());
    std::vector<float> high(columns, -std::numeric_limits<float>::infinity());
    for (size_t o = 0; o < s.outer; ++o)
      kernels.min_max_columns(values.data + (o * s.channels + first) * s.inner, columns, low.data(), high.data());
    for (size_t c = 0; c < channels; ++c) {
      ranges.low[first + c] = *std::min_element(&low[c * s.inner], &low[c * s.inner] + s.inner);
      ranges.high[first + c] = *std::max_element(&high[c * s.inner], &high[c * s.inner] + s.inner);
    }
  });
}

// The kernels by the width of a code.
auto run_kernel(const Kernels& k, uint8_t) { return k.quantize8; }
auto run_kernel(const Kernels& k, uint16_t) { return k.quantize16; }
auto columns_kernel(const Kernels& k, uint8_t) { return k.quantize_columns8; }
auto columns_kernel(const Kernels& k, uint16_t) { return k.quantize_columns16; }

template <class T>
void quantize_to(Floats in, T* out, Strides s, const QuantParams& params, const Kernels& kernels) {
  const QuantLimits limits = code_limits(params);
  const CodeRange range{limits.lowest, limits.highest};
  if (s.inner >= kShortRun || s.outer * s.channels == 1) {
    auto kernel = run_kernel(kernels, T{});
    in_parts(s.outer * s.channels, steps_worth_a_thread(s.inner), [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r)
        kernel(in.data + r * s.inner, out + r * s.inner, s.inner, params.scale[r % s.channels],
               params.zero_point[r % s.channels], range);
    });
    return;
  }
  auto kernel = columns_kernel(kernels, T{});
  for_each_block(s, [&](size_t first, size_t channels) {
    auto scale = repeated(std::span(params.scale).subspan(first, channels), s.inner);
    auto zero_point = repeated(std::span(params.zero_point).subspan(first, channels), s.inner);
    for (size_t o = 0; o < s.outer; ++o) {
      size_t at = (o * s.channels + first) * s.inner;
      kernel(in.data + at, out + at, channels * s.inner, scale.data(), zero_point.data(), range);
    }
  });
}

template <class T>
Tensor codes_as(Floats in, const std::vector<int64_t>& dims, const QuantParams& params, const Kernels& kernels) {
  // Not a vector: it would write zeros first, a pass over memory more.
  std::shared_ptr<T[]> out(new T[in.count]);
  quantize_to(in, out.get(), strides(dims, params.axis), params, kernels);
  return Tensor(params.type, dims, out, std::as_bytes(std::span<const T>(out.get(), in.count)));
}

}  // namespace

Strides strides(const std::vector<int64_t>& dims, std::optional<int64_t> axis) {
  Strides s;
  for (size_t d = 0; d < dims.size(); ++d) {
    auto extent = static_cast<size_t>(dims[d]);
    if (!axis || static_cast<int64_t>(d) > *axis) s.inner *= extent;
    else if (static_cast<int64_t>(d) < *axis) s.outer *= extent;
    else s.channels = extent;
  }
  return s;
}

ChannelRanges channel_ranges(Floats values, Strides s, const Kernels& kernels) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ChannelRanges ranges{std::vector<float>(s.channels, kInfinity), std::vector<float>(s.channels, -kInfinity)};
  if (s.inner == 0) return ranges;
  if (s.inner < kShortRun && s.outer * s.channels > 1) {
    short_ranges(values, s, kernels, ranges);
    return ranges;
  }
  in_parts(s.channels, steps_worth_a_thread(s.outer * s.inner), [&](size_t begin, size_t end) {
    for (size_t o = 0; o < s.outer; ++o)
      for (size_t c = begin; c < end; ++c)
        kernels.min_max(values.data + (o * s.channels + c) * s.inner, s.inner, &ranges.low[c], &ranges.high[c]);
  });
  return ranges;
}

Tensor quantize_channels(Floats in, const std::vector<int64_t>& dims, const QuantParams& params,
                         const Kernels& kernels) {
  switch (params.type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return codes_as<uint8_t>(in, dims, params, kernels);
    case DataType::kInt16:
    case DataType::kUint16:
      return codes_as<uint16_t>(in, dims, params, kernels);
    case DataType::kInt4:
    case DataType::kUint4:
      return packed_4_bits(params.type, dims, codes_as<uint8_t>(in, dims, params, kernels).values<uint8_t>());
    default:
      assert(false);
      return {};
  }
}

}  // namespace seqto::internal
