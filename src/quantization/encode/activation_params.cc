#include "quantization/encode/activation_params.h"

namespace seqto::internal {

QuantParams activation_params(const Range& range, const QuantizeOptions& options, DataType float_type,
                              const ParamsOverride* o) {
  DataType type = o && o->quant_type ? *o->quant_type : options.activation_type;
  if (o && o->scale) return {type, {rounded(*o->scale, float_type)}, {*o->zero_point}, {}};
  float low = o ? o->rmin.value_or(range.lowest) : range.lowest;
  float high = o ? o->rmax.value_or(range.highest) : range.highest;
  bool symmetric = o ? o->symmetric.value_or(options.symmetric_activations) : options.symmetric_activations;
  const bool powers = options.power_of_two_scales, compat = options.compat_onnxruntime;
  ScaleZeroPoint p;
  if (options.restricted_asymmetric_activations && type == DataType::kUint8 && !symmetric) {
    p = snapped_scale_zero_point(low, high, options.min_real_range);
    p.scale = rounded(powers ? next_power_of_two(p.scale) : p.scale, float_type);
  } else {
    const QuantLimits limits = quant_limits(type, false, symmetric);
    p = scale_zero_point(low, high, {limits, symmetric, options.min_real_range, float_type, powers, compat});
  }
  QuantParams params{type, {p.scale}, {p.zero_point}, {}};
  if (!compat) note_small_scales(params, float_type);
  return params;
}

std::optional<QuantParams> ActivationParams::original(const std::string& tensor) const {
  if (!ranges_.find(tensor)) return {};
  const auto* list = overrides_of(options_, tensor);
  return params(tensor, list ? &list->front() : nullptr);
}

QuantParams ActivationParams::params(const std::string& tensor, const ParamsOverride* set) const {
  const DataType type = set && set->quant_type ? *set->quant_type : options_.activation_type;
  const Range range = is_16_bits(type) ? ranges_.widened(tensor, options_.headroom_16_bits) : *ranges_.find(tensor);
  return activation_params(range, options_, float_type(tensor), set);
}

std::optional<QuantParams> ActivationParams::converted(const std::string& tensor) const {
  const auto* list = overrides_of(options_, tensor);
  if (!ranges_.find(tensor) || !list || !list->front().convert) return {};
  return params(tensor, &*list->front().convert);
}

std::optional<QuantParams> ActivationParams::read_by(const std::string& tensor, const LayerId& node) const {
  auto params = converted(tensor);
  if (!params) return original(tensor);
  const auto& readers = overrides_of(options_, tensor)->front().convert->recv_nodes;
  return !readers || readers->contains(node) ? params : original(tensor);
}

DataType ActivationParams::float_type(const std::string& tensor) const {
  auto it = index_.types.find(tensor);
  return it != index_.types.end() && it->second == DataType::kFloat16 ? DataType::kFloat16 : DataType::kFloat;
}

}  // namespace seqto::internal
