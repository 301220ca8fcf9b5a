#include "quantization/arithmetic.h"

#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cmath>
#include <limits>

#include "model/float16.h"
#include "quantization/channels.h"

namespace seqto::internal {

QuantLimits quant_limits(DataType type, bool reduce_range, bool symmetric) {
  // type -> full, symmetric, reduced; the odd ones (int4's symmetric, int8's reduced) are onnxruntime's.
  switch (type) {
    case DataType::kInt8:
      return reduce_range ? QuantLimits{-64, 64} : symmetric ? QuantLimits{-127, 127} : QuantLimits{-128, 127};
    case DataType::kUint8:
      return reduce_range ? QuantLimits{0, 127} : QuantLimits{0, 255};
    case DataType::kInt16:
      return reduce_range ? QuantLimits{-16384, 16384}
             : symmetric  ? QuantLimits{-32767, 32767}
                          : QuantLimits{-32768, 32767};
    case DataType::kUint16:
      return reduce_range ? QuantLimits{0, 32767} : QuantLimits{0, 65535};
    case DataType::kInt4:
      return reduce_range ? QuantLimits{-4, 3} : QuantLimits{-8, 7};
    case DataType::kUint4:
      return reduce_range ? QuantLimits{0, 7} : QuantLimits{0, 15};
    default:
      assert(false);
      return {};
  }
}

ScaleZeroPoint scale_zero_point(float rmin, float rmax, QuantLimits limits, bool symmetric,
                                std::optional<float> min_real_range) {
  rmin = std::min(rmin, 0.0f);
  rmax = std::max(rmax, 0.0f);
  if (min_real_range) rmax = std::max(rmax, rmin + *min_real_range);
  if (symmetric) {
    rmax = std::max(std::fabs(rmin), std::fabs(rmax));
    rmin = -rmax;
  }
  double scale = (static_cast<double>(rmax) - static_cast<double>(rmin)) /
                 (static_cast<double>(limits.highest) - static_cast<double>(limits.lowest));
  if (scale < static_cast<double>(FLT_MIN)) return {1.0f, 0};
  double zero_point = symmetric ? std::nearbyint((limits.lowest + limits.highest) / 2.0)
                                : std::nearbyint(limits.lowest - static_cast<double>(rmin) / scale);
  return {static_cast<float>(scale), static_cast<int32_t>(zero_point)};
}

ScaleZeroPoint snapped_scale_zero_point(float rmin_in, float rmax_in, std::optional<float> min_real_range) {
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

QuantParams weight_params(const Tensor& weight, const WeightRule& rule) {
  QuantLimits limits = quant_limits(rule.type, rule.reduce_range, rule.symmetric);
  std::vector<float> converted;
  std::span<const float> values;
  if (weight.type() == DataType::kFloat) {
    values = weight.values<float>();
  } else {
    converted = to_floats(weight);
    values = converted;
  }
  ChannelRanges ranges = channel_ranges(values, strides(weight.dims(), rule.axis));
  QuantParams params;
  params.type = rule.type;
  params.axis = rule.axis;
  for (size_t c = 0; c < ranges.low.size(); ++c) {
    // An empty tensor has no range; onnxruntime gives it scale 1 and zero point 0, and so does a range of 0.
    ScaleZeroPoint p =
        values.empty() ? ScaleZeroPoint{}
                       : scale_zero_point(ranges.low[c], ranges.high[c], limits, rule.symmetric, rule.min_real_range);
    params.scale.push_back(p.scale);
    params.zero_point.push_back(p.zero_point);
  }
  if (weight.type() == DataType::kFloat16)
    for (float& scale : params.scale) scale = half_to_float(float_to_half(scale));
  return params;
}

Tensor quantize(const Tensor& values, const QuantParams& params) {
  std::vector<float> converted;
  std::span<const float> in;
  if (values.type() == DataType::kFloat) {
    in = values.values<float>();
  } else {
    converted = to_floats(values);
    in = converted;
  }
  return quantize_channels(in, values.dims(), params);
}

std::vector<float> dequantize(const Tensor& quantized, const QuantParams& params) {
  Strides s = strides(quantized.dims(), params.axis);
  std::vector<float> out(static_cast<size_t>(quantized.element_count()));
  for (size_t i = 0; i < out.size(); ++i) {
    size_t c = i / s.inner % s.channels;
    double q = element(quantized, static_cast<int64_t>(i)) - params.zero_point[c];
    out[i] = static_cast<float>(q) * params.scale[c];
  }
  return out;
}

QuantizedBias quantize_bias(std::span<const float> bias, float input_scale, std::span<const float> weight_scale) {
  QuantizedBias result;
  for (float w : weight_scale) result.scale.push_back(input_scale * w);
  for (size_t i = 0; i < bias.size(); ++i) {
    double scale = result.scale[result.scale.size() == 1 ? 0 : i];
    double q = std::nearbyint(static_cast<double>(bias[i]) / scale);
    q = std::clamp(q, static_cast<double>(INT32_MIN), static_cast<double>(INT32_MAX));
    result.values.push_back(static_cast<int32_t>(q));
  }
  return result;
}

bool adjust_weight_scale_for_bias(std::span<const float> bias, float input_scale, QuantParams& weight) {
  constexpr double kMargin = 1.0001;
  constexpr double kRange = 2147483647.0 - -2147483647.0;
  bool changed = false;
  auto adjust = [&](float& scale, double width) {  // width: what the int32 range has to hold, with a margin
    double smallest_valid = width / kRange;
    double candidate = static_cast<double>(input_scale) * static_cast<double>(scale);
    if (candidate < smallest_valid && candidate > 0) {
      scale = static_cast<float>(static_cast<double>(scale) * (smallest_valid / candidate));
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
      float width = static_cast<float>(kMargin) * (2.0f * std::fabs(bias[c]));
      adjust(weight.scale[c], static_cast<double>(width));
    }
  }
  return changed;
}

}  // namespace seqto::internal
