// QuantizeOptions as JSON, both ways from one list of fields.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

using nlohmann::json;

// Calls f(name, field) for every field; Options is QuantizeOptions or const QuantizeOptions.
template <class Options, class F>
void for_each_field(Options& o, F f) {
  f("format", o.format);
  f("activation_type", o.activation_type);
  f("weight_type", o.weight_type);
  f("per_channel", o.per_channel);
  f("per_token", o.per_token);
  f("reduce_range", o.reduce_range);
  f("symmetric_activations", o.symmetric_activations);
  f("symmetric_weights", o.symmetric_weights);
  f("restricted_asymmetric_activations", o.restricted_asymmetric_activations);
  f("min_real_range", o.min_real_range);
  f("power_of_two_scales", o.power_of_two_scales);
  f("headroom_16_bits", o.headroom_16_bits);
  f("unify_concat", o.unify_concat);
  f("float_unlike_concat", o.float_unlike_concat);
  f("float_between_products", o.float_between_products);
  f("sums_for_adds", o.sums_for_adds);
  f("widen_float16", o.widen_float16);
  f("add_joins_product", o.add_joins_product);
  f("equal_input_op_types", o.equal_input_op_types);
  f("force_quantize_no_input_check", o.force_quantize_no_input_check);
  f("keep_removable_activations", o.keep_removable_activations);
  f("add_qdq_pair_to_weight", o.add_qdq_pair_to_weight);
  f("quantize_bias", o.quantize_bias);
  f("adjust_weight_scale_for_bias", o.adjust_weight_scale_for_bias);
  f("matmul_const_b_only", o.matmul_const_b_only);
  f("enable_subgraph", o.enable_subgraph);
  f("nnapi_sigmoid", o.nnapi_sigmoid);
  f("op_types", o.op_types);
  f("exclude_output_op_types", o.exclude_output_op_types);
  f("include", o.include);
  f("exclude", o.exclude);
  f("dedicated_qdq_pair", o.dedicated_qdq_pair);
  f("use_qdq_contrib_ops", o.use_qdq_contrib_ops);
  f("block_size", o.block_size);
  f("op_type_per_channel_axis", o.op_type_per_channel_axis);
  f("tensor_overrides", o.tensor_overrides);
  f("weight_clipping", o.weight_clipping);
  f("compat_onnxruntime", o.compat_onnxruntime);
  f("int8_block_size", o.weight_only.int8_block_size);
  f("int8_symmetric", o.weight_only.int8_symmetric);
  f("int4_block_size", o.weight_only.int4_block_size);
  f("int4_symmetric", o.weight_only.int4_symmetric);
  f("int4_format", o.weight_only.int4_format);
  f("weight_bits", o.weight_only.bits);
  f("accuracy_level", o.weight_only.accuracy_level);
  f("float16_compute", o.float16.compute);
  f("keep_io_types", o.float16.keep_io_types);
  f("op_block_list", o.float16.op_block_list);
  f("max_finite_val", o.float16.max_finite_val);
  f("min_positive_val", o.float16.min_positive_val);
  f("strict", o.float16.strict);
}

template <class T>
json to_json(const T& value) {
  return value;
}
json to_json(const DataType& type) { return to_string(type); }
json to_json(const QuantFormat& format) { return to_string(format); }
json to_json(const WeightClipping& clipping) { return to_string(clipping); }
json to_json(const Int4Format& format) { return to_string(format); }
json to_json(const TensorOverrides& overrides) { return internal::parse_json(tensor_overrides_to_json(overrides)); }
template <class T>
json to_json(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

template <class T>
void from_json(const json& j, T& value) {
  value = j.get<T>();
}
void from_json(const json& j, DataType& type) { type = parse_data_type(j.get<std::string>()); }
void from_json(const json& j, QuantFormat& format) { format = parse_quant_format(j.get<std::string>()); }
void from_json(const json& j, WeightClipping& clipping) { clipping = parse_weight_clipping(j.get<std::string>()); }
void from_json(const json& j, Int4Format& format) { format = parse_int4_format(j.get<std::string>()); }
void from_json(const json& j, TensorOverrides& overrides) { overrides = tensor_overrides_from_json(j.dump()); }
template <class T>
void from_json(const json& j, std::optional<T>& value) {
  if (j.is_null()) value.reset();
  else value = j.get<T>();
}

}  // namespace

void take_quantize_options(CalibrateOptions& calibrate, const QuantizeOptions& options, bool method_is_named) {
  calibrate.op_types = options.op_types;
  calibrate.activation_type = options.activation_type;
  calibrate.power_of_two_scales = options.power_of_two_scales;
  if (options.power_of_two_scales && !method_is_named) calibrate.method = CalibrationMethod::kMse;
}

std::string quantize_options_to_json(const QuantizeOptions& options) {
  json j = json::object();
  for_each_field(options, [&](const char* name, const auto& field) { j[name] = to_json(field); });
  return j.dump();
}

QuantizeOptions quantize_options_from_json(const std::string& text) {
  QuantizeOptions options;
  try {
    json j = internal::parse_json(text);
    for_each_field(options, [&](const char* name, auto& field) {
      if (auto it = j.find(name); it != j.end()) from_json(*it, field);
    });
  } catch (const nlohmann::json::exception& error) {
    throw Error(Code::kInvalidInput,
                fmt::format("[options] {}; an object of QuantizeOptions' fields was expected", error.what()));
  }
  return options;
}

}  // namespace seqto
