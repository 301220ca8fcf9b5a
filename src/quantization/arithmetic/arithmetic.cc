#include "quantization/arithmetic/arithmetic.h"

#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cmath>

#include "base/parallel.h"
#include "model/float16.h"
#include "quantization/arithmetic/channels.h"
#include "quantization/arithmetic/linear_blocks.h"

namespace seqto::internal {

QuantLimits code_limits(const QuantParams& params) { return quant_limits(params.type, params.reduced); }

namespace {

bool all_within(const Tensor& codes, QuantLimits limits) {
  const auto inside = [&](auto code) { return code >= limits.lowest && code <= limits.highest; };
  // Asked of every candidate; element() takes ten times as long.
  if (codes.type() == DataType::kInt8) return std::ranges::all_of(codes.values<int8_t>(), inside);
  if (codes.type() == DataType::kUint8) return std::ranges::all_of(codes.values<uint8_t>(), inside);
  for (int64_t i = 0; i < codes.element_count(); ++i)
    if (!inside(element(codes, i))) return false;
  return true;
}

}  // namespace

QuantLimits code_limits(const Tensor& codes) {
  return quant_limits(codes.type(), all_within(codes, quant_limits(codes.type(), true)));
}

float rounded(double value, DataType float_type) {
  if (float_type == DataType::kFloat16) return half_to_float(double_to_half(value));
  return static_cast<float>(value);
}

double smallest_normal(DataType float_type) {
  return float_type == DataType::kFloat16 ? 0x1p-14 : static_cast<double>(FLT_MIN);
}

double usable_scale(double scale, DataType float_type, bool compat_onnxruntime) {
  if (!(scale < smallest_normal(float_type))) return scale;  // NaN stays
  if (compat_onnxruntime || float_type != DataType::kFloat16) return 0;
  constexpr double kStep = 0x1p-24;
  return std::ceil(scale / kStep) * kStep;
}

ScaleZeroPoint scale_zero_point(float rmin, float rmax, const AffineRule& rule) {
  const double lowest = rule.limits.lowest, highest = rule.limits.highest;
  rmin = std::min(rmin, 0.0f);
  rmax = std::max(rmax, 0.0f);
  if (rule.min_real_range) {
    const float least = rounded(*rule.min_real_range, rule.float_type);
    rmax = std::max(rmax, rounded(rmin + least, rule.float_type));
  }
  if (rule.symmetric) {
    rmax = std::max(std::fabs(rmin), std::fabs(rmax));
    rmin = -rmax;
  }
  double scale = (static_cast<double>(rmax) - static_cast<double>(rmin)) / (highest - lowest);
  scale = usable_scale(scale, rule.float_type, rule.compat_onnxruntime);
  if (scale == 0) return {1.0f, 0};
  if (rule.power_of_two) scale = next_power_of_two(scale);
  const double zero_point = rule.symmetric ? (lowest + highest) / 2 : lowest - static_cast<double>(rmin) / scale;
  return {rounded(scale, rule.float_type), to_int32(zero_point)};
}

double next_power_of_two(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // 0.5 to 1
  return std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent);
}

ScaleZeroPoint snapped_scale_zero_point(float rmin_in, float rmax_in, std::optional<double> min_real_range) {
  constexpr double kHighest = 255, kMid = 128;
  double rmin = std::min<double>(rmin_in, 0.0), rmax = std::max<double>(rmax_in, 0.0);
  if (min_real_range && *min_real_range > 0) rmax = std::max(rmax, rmin + *min_real_range);
  double floor = min_real_range ? *min_real_range / kHighest : 0.0;
  // The range holds 0, so it is empty only where both ends are 0.
  if (rmax <= rmin) return {static_cast<float>(std::max(1.0 / kHighest, floor)), 0};
  ScaleZeroPoint result;
  if (rmin >= 0.0) {
    result = {static_cast<float>(rmax / kHighest), 0};
  } else {
    result = {static_cast<float>(std::max(-rmin / kMid, rmax / (kHighest - kMid))), 128};
  }
  if (min_real_range && result.scale < floor) result.scale = static_cast<float>(floor);
  return result;
}

std::vector<float> to_floats(const Tensor& tensor) {
  if (tensor.type() == DataType::kFloat) {
    auto v = tensor.values<float>();
    return {v.begin(), v.end()};
  }
  assert(tensor.type() == DataType::kFloat16);
  std::vector<float> out;
  out.reserve(static_cast<size_t>(tensor.element_count()));
  for (uint16_t h : tensor.values<uint16_t>()) out.push_back(half_to_float(h));
  return out;
}

std::vector<int64_t> scale_dims(const QuantParams& params, const std::vector<int64_t>& dims) {
  if (!params.axis) return {};
  if (params.block_size == 0) return {static_cast<int64_t>(params.scale.size())};
  std::vector<int64_t> blocks = dims;
  int64_t& along = blocks[static_cast<size_t>(*params.axis)];
  along = (along + params.block_size - 1) / params.block_size;
  return blocks;
}

int32_t to_int32(double value) {
  if (std::isnan(value)) return INT32_MIN;
  return static_cast<int32_t>(
      std::clamp(std::nearbyint(value), static_cast<double>(INT32_MIN), static_cast<double>(INT32_MAX)));
}

Tensor codes_tensor(DataType type, const std::vector<int64_t>& dims, std::span<const int32_t> codes) {
  auto as = [&]<class T>(T) { return Tensor::from(type, dims, std::vector<T>(codes.begin(), codes.end())); };
  switch (type) {
    case DataType::kInt4:
    case DataType::kUint4:
      return packed_4_bits(type, dims, std::vector<uint8_t>(codes.begin(), codes.end()));
    case DataType::kInt8:
      return as(int8_t{});
    case DataType::kUint8:
      return as(uint8_t{});
    case DataType::kInt16:
      return as(int16_t{});
    default:
      return as(uint16_t{});
  }
}

std::vector<uint8_t> packed_pairs(std::span<const uint8_t> values) {
  std::vector<uint8_t> bytes((values.size() + 1) / 2);
  const size_t pairs = values.size() / 2;
  in_parts(pairs, steps_worth_a_thread(1), [&](size_t begin, size_t end) {
    const uint8_t* __restrict in = values.data();
    uint8_t* __restrict out = bytes.data();
    for (size_t i = begin; i < end; ++i) out[i] = static_cast<uint8_t>((in[2 * i] & 15) | in[2 * i + 1] << 4);
  });
  if (bytes.size() > pairs) bytes[pairs] = values.back() & 15;
  return bytes;
}

Tensor packed_4_bits(DataType type, std::vector<int64_t> dims, std::span<const uint8_t> values) {
  return Tensor::from(type, std::move(dims), packed_pairs(values));
}

namespace {

// Whether a value of the range gets a code beyond the limits: it was narrowed by hand, or the zero point lies between
// two codes.
bool leaves(float low, float high, const ScaleZeroPoint& p, QuantLimits limits) {
  const auto code = [&](float x) { return std::nearbyintf(x / p.scale) + static_cast<float>(p.zero_point); };
  return code(low) < static_cast<float>(limits.lowest) || code(high) > static_cast<float>(limits.highest);
}

}  // namespace

namespace {

QuantParams min_max_weight_params(const Tensor& weight, const WeightRule& rule) {
  QuantLimits limits = quant_limits(rule.type, rule.reduce_range, rule.symmetric);
  std::vector<float> converted;
  if (weight.type() != DataType::kFloat) converted = to_floats(weight);
  Floats values = weight.type() == DataType::kFloat ? Floats(weight) : Floats(converted);
  ChannelRanges ranges = channel_ranges(values, strides(weight.dims(), rule.axis));
  QuantParams params;
  params.type = rule.type;
  params.axis = rule.axis;
  params.reduced = rule.reduce_range && !rule.compat_onnxruntime;
  params.power_of_two = rule.power_of_two;
  const AffineRule affine{limits,        rule.symmetric,    rule.min_real_range,
                          weight.type(), rule.power_of_two, rule.compat_onnxruntime};
  bool cut = false;
  for (size_t c = 0; c < ranges.low.size(); ++c) {
    const float lowest = ranges.low[c], highest = ranges.high[c];
    if (c < rule.bounds.size()) {
      if (auto low = rule.bounds[c].first) ranges.low[c] = rounded(*low, weight.type());
      if (auto high = rule.bounds[c].second) ranges.high[c] = rounded(*high, weight.type());
    }
    // An empty tensor has no range; onnxruntime gives it scale 1 and zero point 0, and so does a range of 0.
    ScaleZeroPoint p;
    if (values.count > 0) p = scale_zero_point(ranges.low[c], ranges.high[c], affine);
    cut |= params.reduced && leaves(lowest, highest, p, code_limits(params));
    params.scale.push_back(p.scale);
    params.zero_point.push_back(p.zero_point);
  }
  if (cut) params.deviations.emplace_back("D57");
  return params;
}

// A channel of zeros has no range, and so zero point 0. Integer convolutions of releases up to 1.24 take one zero point
// for all channels.
void centre_empty_channels(QuantParams& params, const WeightRule& rule) {
  if (!rule.axis || !rule.symmetric || rule.compat_onnxruntime) return;
  const QuantLimits limits = quant_limits(rule.type, rule.reduce_range, rule.symmetric);
  const int32_t middle = to_int32((static_cast<double>(limits.lowest) + limits.highest) / 2);
  if (std::ranges::count(params.zero_point, middle) == std::ssize(params.zero_point)) return;
  std::ranges::fill(params.zero_point, middle);
  params.deviations.emplace_back("D65");
}

}  // namespace

void note_small_scales(QuantParams& params, DataType float_type) {
  const auto is_small = [least = smallest_normal(float_type)](float scale) { return scale < least; };
  if (float_type == DataType::kFloat16 && std::ranges::any_of(params.scale, is_small))
    params.deviations.emplace_back("D66");
}

QuantParams weight_params(const Tensor& weight, const WeightRule& rule) {
  const bool by_error = (rule.clipping == WeightClipping::kMse || rule.power_of_two) && rule.bounds.empty();
  QuantParams params = rule.block_size > 0 ? block_params(to_floats(weight), weight.dims(), rule, weight.type())
                       : by_error          ? mse_weight_params(weight, rule)
                                           : min_max_weight_params(weight, rule);
  centre_empty_channels(params, rule);
  if (!rule.compat_onnxruntime) note_small_scales(params, weight.type());
  return params;
}

Tensor quantize(const Tensor& values, const QuantParams& params) {
  if (params.block_size > 0) return quantize_blocks(to_floats(values), values.dims(), params);
  if (values.type() == DataType::kFloat) return quantize_channels(Floats(values), values.dims(), params);
  return quantize_channels(to_floats(values), values.dims(), params);
}

std::vector<float> dequantize(const Tensor& quantized, const QuantParams& params) {
  Strides s = strides(quantized.dims(), params.axis);
  std::optional<Blocks> blocks;
  if (params.block_size > 0) blocks.emplace(quantized.dims(), *params.axis, params.block_size);
  std::vector<float> out(static_cast<size_t>(quantized.element_count()));
  for (size_t i = 0; i < out.size(); ++i) {
    size_t c = i / s.inner % s.channels;
    size_t k = blocks ? blocks->scale_index(i / s.inner / s.channels, c, i % s.inner) : c;
    double q = element(quantized, static_cast<int64_t>(i)) - params.zero_point[k];
    out[i] = static_cast<float>(q) * params.scale[k];
  }
  return out;
}

QuantizedBias quantize_bias(std::span<const float> bias, float input_scale, std::span<const float> weight_scale,
                            DataType float_type, float beta) {
  QuantizedBias result;
  for (float w : weight_scale) result.scale.push_back(rounded(rounded(input_scale * w, float_type) * beta, float_type));
  for (size_t i = 0; i < bias.size(); ++i) {
    double scale = result.scale[result.scale.size() == 1 ? 0 : i];
    result.values.push_back(to_int32(static_cast<double>(bias[i]) / scale));  // 0 / 0 where beta is 0
  }
  return result;
}

bool adjust_weight_scale_for_bias(std::span<const float> bias, float input_scale, QuantParams& weight,
                                  DataType float_type) {
  if (weight.block_size > 0) return false;
  constexpr double kMargin = 1.0001;
  constexpr double kRange = 2147483647.0 - -2147483647.0;
  bool changed = false;
  auto adjust = [&](float& scale, double width) {  // width: what the int32 range has to hold, with a margin
    double smallest_valid = width / kRange;
    double candidate = static_cast<double>(input_scale) * static_cast<double>(scale);
    if (candidate < smallest_valid && candidate > 0) {
      const double enlarged = static_cast<double>(scale) * (smallest_valid / candidate);
      scale = rounded(weight.power_of_two ? next_power_of_two(enlarged) : enlarged, float_type);
      changed = true;
    }
  };
  if (!weight.axis) {
    double largest = 0;
    for (float b : bias) largest = std::max(largest, std::fabs(static_cast<double>(b)));
    adjust(weight.scale[0], kMargin * (2.0 * largest));
  } else {
    for (size_t c = 0; c < weight.scale.size() && c < bias.size(); ++c) {
      // numpy keeps float here (a float scalar times Python numbers), but not in the per-tensor path.
      float doubled = rounded(2.0f * std::fabs(bias[c]), float_type);
      float width = rounded(rounded(kMargin, float_type) * doubled, float_type);
      adjust(weight.scale[c], static_cast<double>(width));
    }
  }
  return changed;
}

Tensor scale_tensor(const std::vector<float>& values, std::vector<int64_t> dims, DataType type) {
  if (type != DataType::kFloat16) return float_tensor(std::move(dims), values);
  std::vector<uint16_t> halves;
  for (float v : values) halves.push_back(float_to_half(v));
  return Tensor::from(DataType::kFloat16, std::move(dims), std::move(halves));
}

Tensor zero_point_tensor(const QuantParams& params, const std::vector<int64_t>& dims) {
  return codes_tensor(params.type, dims, params.zero_point);
}

}  // namespace seqto::internal
