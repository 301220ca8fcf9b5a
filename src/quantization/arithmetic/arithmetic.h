// Room: quantization/arithmetic. The numbers: ranges of types, scale and zero point, rounding. Equal to onnxruntime's
// bit for bit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quantization/plan/code_types.h"
#include "seqto/quantize.h"

namespace seqto::internal {

struct ScaleZeroPoint {
  float scale = 1;
  int32_t zero_point = 0;
};
struct AffineRule {
  QuantLimits limits;
  bool symmetric = false;
  std::optional<double> min_real_range = {};
  DataType float_type = DataType::kFloat;
  bool power_of_two = false;       // the scale becomes the next one
  bool compat_onnxruntime = true;  // without D66 of docs/reference/compatibility.md
};
// Affine parameters of [rmin, rmax] widened to hold 0 (and to `min_real_range`); the quotient is taken in double and
// rounded once. A scale that is no usable_scale() gives 1, zero point 0.
// For a float16 tensor sums and scale are rounded to float16.
ScaleZeroPoint scale_zero_point(float rmin, float rmax, const AffineRule& rule);
double next_power_of_two(double value);  // the smallest that is no smaller than the positive `value`
// uint8 only: the zero point is 0 where nothing is negative, else 128; the scale covers both sides.
ScaleZeroPoint snapped_scale_zero_point(float rmin, float rmax, std::optional<double> min_real_range = {});

// Parameters of one tensor: one scale, one per index of `axis`, or one per block of `block_size` values along it (then
// in the order of a tensor of the same rank that has one element a block).
struct QuantParams {
  DataType type = DataType::kInt8;
  std::vector<float> scale;
  std::vector<int32_t> zero_point;
  std::optional<int64_t> axis;  // set: per channel
  int64_t block_size = 0;       // more than 0: per block of the axis
  bool reduced = false;         // codes keep to the reduced range of the type
  bool power_of_two = false;    // so are the scales, and stay when they are enlarged
  // Where they differ from onnxruntime's: ids of docs/reference/compatibility.md.
  std::vector<std::string> deviations;
};
// The codes that a tensor with these parameters may have. Scales and zero points alone do not tell: a clipped weight,
// or one that is rounded otherwise, has values beyond the range that its scale was computed for.
QuantLimits code_limits(const QuantParams& params);
// Those that codes in a file keep to: the reduced range of their type where all lie in it. Who chooses other codes
// under the same parameters (learned rounding) stays in them.
QuantLimits code_limits(const Tensor& codes);
// Dims of the scale of a tensor with these dims.
std::vector<int64_t> scale_dims(const QuantParams& params, const std::vector<int64_t>& dims);

struct WeightRule {
  DataType type = DataType::kInt8;
  bool symmetric = true;
  bool reduce_range = false;
  std::optional<double> min_real_range;
  std::optional<int64_t> axis;
  // Real bounds in place of the observed, for the first so many channels.
  std::vector<std::pair<std::optional<float>, std::optional<float>>> bounds;
  // Rank 2 only. As in onnxruntime neither reduce_range nor min_real_range nor bounds count then, and the zero point
  // comes from the rounded scale.
  int64_t block_size = 0;
  WeightClipping clipping = WeightClipping::kNone;
  bool power_of_two = false;       // scales; clipped as by kMse
  bool compat_onnxruntime = true;  // without D57, D65 and D66 of docs/reference/compatibility.md
};
QuantParams weight_params(const Tensor& weight, const WeightRule& rule);
// Whether scales of a float16 tensor are below its normal numbers, as onnxruntime's are not (D66).
void note_small_scales(QuantParams& params, DataType float_type);

// Of all ranges within min-max, tried in steps, the one with the smallest squared error of the weight, by channel. A
// scale that is a power of two is halved as long as that helps.
QuantParams mse_weight_params(const Tensor& weight, const WeightRule& rule);

// q = clip(rint(x / scale) + zero_point) in float, clipped to code_limits(params).
Tensor quantize(const Tensor& values, const QuantParams& params);
// (q - zero_point) * scale, computed in float (onnxruntime's debugger computes it in the integer type and wraps).
std::vector<float> dequantize(const Tensor& quantized, const QuantParams& params);

// int32 bias: scale[c] = input_scale * weight_scale[c], two float multiplications in this order with beta.
struct QuantizedBias {
  std::vector<float> scale;
  std::vector<int32_t> values;
};
QuantizedBias quantize_bias(std::span<const float> bias, float input_scale, std::span<const float> weight_scale,
                            DataType float_type = DataType::kFloat, float beta = 1);

// Enlarges weight scales whose product with the input's would push the bias out of int32; true if any changed.
bool adjust_weight_scale_for_bias(std::span<const float> bias, float input_scale, QuantParams& weight,
                                  DataType float_type = DataType::kFloat);

// The nearest int32, halves to even, saturating; NaN becomes the lowest, as the cast makes it on x86.
int32_t to_int32(double value);

// Codes as a tensor of their type: integers of up to 16 bits, those of 4 bits packed.
Tensor codes_tensor(DataType type, const std::vector<int64_t>& dims, std::span<const int32_t> codes);

// The low 4 bits of each, two a byte, the first in the low half; as a tensor of int4 or uint4.
std::vector<uint8_t> packed_pairs(std::span<const uint8_t> values);
Tensor packed_4_bits(DataType type, std::vector<int64_t> dims, std::span<const uint8_t> values);

// A quantizer's scales as a tensor of the tensor's own float type, and its zero points as one of the quantized type.
Tensor scale_tensor(const std::vector<float>& values, std::vector<int64_t> dims, DataType type = DataType::kFloat);
Tensor zero_point_tensor(const QuantParams& params, const std::vector<int64_t>& dims);

// A value of a tensor of this type: rounded to float16 where it is that.
float rounded(double value, DataType float_type);
double smallest_normal(DataType float_type);
// The scale as tensors of the type hold it; 0 where it is too small. onnxruntime's rule ends at the smallest normal
// number. Those of float16 are not small, so that ours goes on to its multiples of 2^-24, rounded up: nothing is cut.
double usable_scale(double scale, DataType float_type, bool compat_onnxruntime);

// Values as float, whatever the float type.
std::vector<float> to_floats(const Tensor& tensor);

}  // namespace seqto::internal
