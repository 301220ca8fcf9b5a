#include "quantization/encode/constant_params.h"

#include <fmt/format.h>

#include <algorithm>

#include "quantization/plan/overrides.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

DataType type_of(const std::string& name, const Mark& mark, const QuantizeOptions& options) {
  return mark.weight ? weight_type_of(options, name) : activation_type_of(options, name);
}

// Scales and zero points that a user set.
std::optional<QuantParams> given_params(const std::string& name, const Mark& mark, const Tensor& weight,
                                        const QuantizeOptions& options) {
  const auto* overrides = overrides_of(options, name);
  if (!overrides || !overrides->front().scale || (mark.whole && overrides->front().axis)) return {};
  QuantParams params;
  params.type = type_of(name, mark, options);
  size_t count = 1;
  if (overrides->front().axis) {
    params.axis = normalized_axis(*overrides->front().axis, weight.dims().size());
    count = static_cast<size_t>(weight.dims()[static_cast<size_t>(*params.axis)]);
  }
  for (size_t c = 0; c < count; ++c) {
    const TensorOverride& o = c < overrides->size() ? (*overrides)[c] : overrides->front();
    params.scale.push_back(rounded(*o.scale, weight.type()));
    params.zero_point.push_back(*o.zero_point);
  }
  // Checked as a weight's before it was known that the constant is read as an activation.
  QuantLimits limits = quant_limits(params.type);
  for (int32_t z : params.zero_point)
    if (z < limits.lowest || z > limits.highest)
      throw Error(Code::kInvalidInput,
                  fmt::format("[overrides] tensor '{}': zero_point {} lies outside of {}, as which it is read; correct "
                              "the overrides or name the quant_type",
                              name, z, to_string(params.type)));
  return params;
}

WeightRule weight_rule(const std::string& name, const Mark& mark, const Tensor& weight,
                       const QuantizeOptions& options) {
  const auto* overrides = overrides_of(options, name);
  WeightRule rule;
  rule.type = type_of(name, mark, options);
  rule.axis = mark.axis;
  if (overrides && overrides->front().axis) rule.axis = normalized_axis(*overrides->front().axis, weight.dims().size());
  if (mark.whole) rule.axis.reset();
  bool signed_type = rule.type == DataType::kInt8 || rule.type == DataType::kInt16 || rule.type == DataType::kInt4;
  rule.symmetric =
      rule.axis || (mark.weight ? options.symmetric_weights.value_or(signed_type) : options.symmetric_activations);
  rule.reduce_range = options.reduce_range;
  rule.compat_onnxruntime = options.compat_onnxruntime;
  rule.min_real_range = options.min_real_range;
  rule.power_of_two = options.power_of_two_scales;
  if (mark.weight) rule.clipping = options.weight_clipping;
  if (mark.weight && overrides) rule.clipping = overrides->front().weight_clipping.value_or(rule.clipping);
  if (overrides) {
    rule.symmetric = overrides->front().symmetric.value_or(rule.symmetric);
    rule.reduce_range = overrides->front().reduce_range.value_or(rule.reduce_range);
    bool channels = !mark.whole || !overrides->front().axis;  // bounds of channels are no bounds of the whole
    bool bounded =
        std::any_of(overrides->begin(), overrides->end(), [](const TensorOverride& o) { return o.rmin || o.rmax; });
    if (channels && bounded)
      for (const TensorOverride& o : *overrides) rule.bounds.emplace_back(o.rmin, o.rmax);
  }
  if (mark.blocked) {
    rule.block_size = block_size_of(options, name);
    rule.axis = rule.axis.value_or(0);
  }
  return rule;
}

}  // namespace

QuantParams constant_params(const std::string& name, const Mark& mark, const Tensor& constant,
                            const QuantizeOptions& options, WeightCache& cache) {
  if (auto given = given_params(name, mark, constant, options)) return *std::move(given);
  return cache.params(name, constant, weight_rule(name, mark, constant, options));
}

}  // namespace seqto::internal
