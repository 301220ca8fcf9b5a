// Room: quantization. The numbers: ranges of types, scale and zero point, rounding. Equal to onnxruntime's bit for bit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

struct QuantLimits {
  int32_t lowest = 0, highest = 0;
};
// The values that the scale is computed for; reduce_range goes before symmetric.
QuantLimits quant_limits(DataType type, bool reduce_range = false, bool symmetric = false);

struct ScaleZeroPoint {
  float scale = 1;
  int32_t zero_point = 0;
};
// Affine parameters of [rmin, rmax] widened to hold 0 (and to `min_real_range`); the quotient is taken in double and
// rounded once. A range that is empty or below float's smallest normal gives scale 1, zero point 0.
ScaleZeroPoint scale_zero_point(float rmin, float rmax, QuantLimits limits, bool symmetric,
                                std::optional<float> min_real_range = {});
// uint8 only: the zero point is 0 where nothing is negative, else 128; the scale covers both sides.
ScaleZeroPoint snapped_scale_zero_point(float rmin, float rmax, std::optional<float> min_real_range = {});

// Parameters of one tensor: one scale, or one per index of `axis`.
struct QuantParams {
  DataType type = DataType::kInt8;
  std::vector<float> scale;
  std::vector<int32_t> zero_point;
  std::optional<int64_t> axis;  // set: per channel
};

struct WeightRule {
  DataType type = DataType::kInt8;
  bool symmetric = true;
  bool reduce_range = false;
  std::optional<float> min_real_range;
  std::optional<int64_t> axis;
};
QuantParams weight_params(const Tensor& weight, const WeightRule& rule);

// q = clip(rint(x / scale) + zero_point) in float, clipped to the full range of the type.
Tensor quantize(const Tensor& values, const QuantParams& params);
// (q - zero_point) * scale, computed in float (onnxruntime's debugger computes it in the integer type and wraps).
std::vector<float> dequantize(const Tensor& quantized, const QuantParams& params);

// int32 bias: scale[c] = input_scale * weight_scale[c], two float multiplications in this order with beta.
struct QuantizedBias {
  std::vector<float> scale;
  std::vector<int32_t> values;
};
QuantizedBias quantize_bias(std::span<const float> bias, float input_scale, std::span<const float> weight_scale);

// Enlarges weight scales whose product with the input's would push the bias out of int32; true if any changed.
bool adjust_weight_scale_for_bias(std::span<const float> bias, float input_scale, QuantParams& weight);

// Values as float, whatever the float type.
std::vector<float> to_floats(const Tensor& tensor);

}  // namespace seqto::internal
