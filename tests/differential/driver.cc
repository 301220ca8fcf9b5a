// Quantizes on request, so that the comparison with onnxruntime can run thousands of cases in one process.
//
// A line of JSON on stdin, a line of JSON on stdout:
//   {"model": path, "ranges": path, "options": {...}, "output": path}   fields of options as in QuantizeOptions
//     -> {"status": "ok" | "error", "message": text, "deviations": [id ...]}
//   {"function": "scale_zero_point" | "quantize" | "quantize_bias" | "adjust_weight_scale", ...}
//     -> {"status": "ok", ...}   the arithmetic alone
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quantization/arithmetic.h"
#include "seqto/error.h"
#include "seqto/model.h"
#include "seqto/quantize.h"

namespace {

using nlohmann::json;
using namespace seqto;

template <class T>
std::optional<T> optional_of(const json& j, const char* key) {
  if (!j.contains(key) || j[key].is_null()) return {};
  return j[key].get<T>();
}

QuantizeOptions read_options(const json& j) {
  QuantizeOptions o;
  o.activation_type = parse_data_type(j.value("activation_type", "int8"));
  o.weight_type = parse_data_type(j.value("weight_type", "int8"));
  o.per_channel = j.value("per_channel", o.per_channel);
  o.reduce_range = j.value("reduce_range", o.reduce_range);
  o.symmetric_activations = j.value("symmetric_activations", o.symmetric_activations);
  o.symmetric_weights = optional_of<bool>(j, "symmetric_weights");
  o.restricted_asymmetric_activations =
      j.value("restricted_asymmetric_activations", o.restricted_asymmetric_activations);
  o.min_real_range = optional_of<float>(j, "min_real_range");
  o.force_quantize_no_input_check = j.value("force_quantize_no_input_check", o.force_quantize_no_input_check);
  o.keep_removable_activations = j.value("keep_removable_activations", o.keep_removable_activations);
  o.add_qdq_pair_to_weight = j.value("add_qdq_pair_to_weight", o.add_qdq_pair_to_weight);
  o.quantize_bias = j.value("quantize_bias", o.quantize_bias);
  o.adjust_weight_scale_for_bias = j.value("adjust_weight_scale_for_bias", o.adjust_weight_scale_for_bias);
  o.op_types = j.value("op_types", o.op_types);
  o.exclude_output_op_types = j.value("exclude_output_op_types", o.exclude_output_op_types);
  o.include = j.value("include", o.include);
  return o;
}

// Nodes stay unnamed here, as in onnxruntime's own quantizer, where "" in a list of names hits all of them.
json quantize_model(const json& request) {
  const json& options = request.at("options");
  Model model = infer_shapes(load_model(request.at("model").get<std::string>()));
  if (model.opset() < 10) model = infer_shapes(convert_opset(model, 11));  // as onnxruntime does by itself
  Quantizer quantizer(std::move(model), load_ranges(request.at("ranges").get<std::string>()), read_options(options));
  Model quantized = quantizer.quantize_excluding(options.value("exclude", std::vector<std::string>{}));
  save_model(quantized, request.at("output").get<std::string>());
  return {{"deviations", quantizer.deviations()}};
}

json quantized_values(const Tensor& tensor) {
  json values = json::array();
  for (int64_t i = 0; i < tensor.element_count(); ++i) values.push_back(static_cast<int32_t>(element(tensor, i)));
  return values;
}

json call_function(const json& j) {
  using namespace internal;
  std::string name = j.at("function");
  DataType type = parse_data_type(j.value("type", "int8"));
  bool symmetric = j.value("symmetric", false), reduce = j.value("reduce_range", false);
  auto min_real_range = optional_of<float>(j, "min_real_range");
  if (name == "scale_zero_point") {
    float rmin = j.at("rmin"), rmax = j.at("rmax");
    auto r = j.value("snapped", false)
                 ? snapped_scale_zero_point(rmin, rmax, min_real_range)
                 : scale_zero_point(rmin, rmax, quant_limits(type, reduce, symmetric), symmetric, min_real_range);
    return {{"scale", r.scale}, {"zero_point", r.zero_point}};
  }
  if (name == "quantize") {
    Tensor values = float_tensor(j.at("dims"), j.at("values"));
    WeightRule rule{.type = type,
                    .symmetric = symmetric,
                    .reduce_range = reduce,
                    .min_real_range = min_real_range,
                    .axis = optional_of<int64_t>(j, "axis")};
    QuantParams params = weight_params(values, rule);
    Tensor q = quantize(values, params);
    return {{"scale", params.scale}, {"zero_point", params.zero_point}, {"values", quantized_values(q)}};
  }
  std::vector<float> bias = j.at("bias"), weight_scale = j.at("weight_scale");
  float input_scale = j.at("input_scale");
  if (name == "quantize_bias") {
    QuantizedBias q = quantize_bias(bias, input_scale, weight_scale);
    return {{"scale", q.scale}, {"values", q.values}};
  }
  if (name == "adjust_weight_scale") {
    QuantParams weight{
        .type = type, .scale = weight_scale, .zero_point = std::vector<int32_t>(weight_scale.size(), 0), .axis = {}};
    if (j.value("per_channel", false)) weight.axis = 0;
    bool changed = adjust_weight_scale_for_bias(bias, input_scale, weight);
    return {{"changed", changed}, {"scale", weight.scale}};
  }
  throw Error(Code::kUsage, "[driver] function '" + name + "' found");
}

json answer(const std::string& line) {
  json reply{{"status", "ok"}, {"message", ""}};
  try {
    json request = json::parse(line);
    reply.update(request.contains("function") ? call_function(request) : quantize_model(request));
  } catch (const std::exception& e) {
    reply["status"] = "error";
    reply["message"] = e.what();
    reply["deviations"] = json::array();
  }
  return reply;
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(line).dump() << std::endl;
}
