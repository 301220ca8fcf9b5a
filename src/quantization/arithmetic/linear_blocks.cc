#include "quantization/arithmetic/linear_blocks.h"

#include <algorithm>
#include <cmath>

#include "quantization/arithmetic/channels.h"

namespace seqto::internal {

Blocks::Blocks(const std::vector<int64_t>& dims, int64_t axis, int64_t block_size)
    : size(static_cast<size_t>(block_size)) {
  const Strides s = strides(dims, axis);
  outer = s.outer, along = s.channels, inner = s.inner;
  count = (along + size - 1) / size;
}

namespace {

// Unlike elsewhere the zero point comes from the rounded scale, and a symmetric empty block keeps the middle.
ScaleZeroPoint block_scale_zero_point(float low, float high, const AffineRule& rule) {
  if (rule.symmetric) {
    high = std::max(-low, high);
    low = -high;
  }
  const DataType type = rule.float_type;
  double lowest = rule.limits.lowest, highest = rule.limits.highest;
  float scale = rounded(static_cast<double>(rounded(high - low, type)) / (highest - lowest), type);
  scale = static_cast<float>(usable_scale(scale, type, rule.compat_onnxruntime));
  const bool empty = scale == 0;
  if (empty) scale = 1;
  if (rule.symmetric) return {scale, static_cast<int32_t>(std::nearbyint((lowest + highest) / 2.0))};
  if (empty) return {scale, 0};
  double zero_point = std::nearbyint(lowest - static_cast<double>(low) / static_cast<double>(scale));
  return {scale, to_int32(std::clamp(zero_point, lowest, highest))};
}

template <class T, class Run, class Columns>
std::vector<T> codes(std::span<const float> in, const Blocks& b, const QuantParams& params, Run run, Columns columns) {
  QuantLimits full = quant_limits(params.type);
  CodeRange range{full.lowest, full.highest};
  std::vector<T> out(in.size());
  for (size_t o = 0; o < b.outer; ++o) {
    if (b.inner > 1) {
      for (size_t a = 0; a < b.along; ++a) {
        size_t at = (o * b.along + a) * b.inner, k = b.scale_index(o, a, 0);
        columns(in.data() + at, out.data() + at, b.inner, &params.scale[k], &params.zero_point[k], range);
      }
    } else {
      for (size_t a = 0; a < b.along; a += b.size) {
        size_t at = o * b.along + a, k = b.scale_index(o, a, 0);
        run(in.data() + at, out.data() + at, std::min(b.size, b.along - a), params.scale[k], params.zero_point[k],
            range);
      }
    }
  }
  return out;
}

}  // namespace

QuantParams block_params(std::span<const float> values, const std::vector<int64_t>& dims, const WeightRule& rule,
                         DataType float_type) {
  Blocks b(dims, *rule.axis, rule.block_size);
  std::vector<float> low(b.scales(), 0.0f), high(b.scales(), 0.0f);
  for (size_t o = 0; o < b.outer; ++o)
    for (size_t a = 0; a < b.along; ++a)
      for (size_t i = 0; i < b.inner; ++i) {
        float x = values[(o * b.along + a) * b.inner + i];
        size_t k = b.scale_index(o, a, i);
        low[k] = std::min(low[k], x);
        high[k] = std::max(high[k], x);
      }
  QuantParams params{
      .type = rule.type, .scale = {}, .zero_point = {}, .axis = rule.axis, .block_size = rule.block_size};
  const AffineRule affine{.limits = quant_limits(rule.type, false, rule.symmetric),
                          .symmetric = rule.symmetric,
                          .float_type = float_type,
                          .compat_onnxruntime = rule.compat_onnxruntime};
  for (size_t k = 0; k < low.size(); ++k) {
    ScaleZeroPoint p = block_scale_zero_point(low[k], high[k], affine);
    params.scale.push_back(p.scale);
    params.zero_point.push_back(p.zero_point);
  }
  return params;
}

Tensor quantize_blocks(std::span<const float> values, const std::vector<int64_t>& dims, const QuantParams& params) {
  Blocks b(dims, *params.axis, params.block_size);
  const Kernels& k = *supported_kernels().sets[0];
  if (is_16_bits(params.type))
    return Tensor::from(params.type, dims, codes<uint16_t>(values, b, params, k.quantize16, k.quantize_columns16));
  auto bytes = codes<uint8_t>(values, b, params, k.quantize8, k.quantize_columns8);
  if (params.type == DataType::kInt4 || params.type == DataType::kUint4) return packed_4_bits(params.type, dims, bytes);
  return Tensor::from(params.type, dims, std::move(bytes));
}

}  // namespace seqto::internal
