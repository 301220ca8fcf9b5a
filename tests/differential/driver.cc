// Quantizes on request, so that the comparison with onnxruntime can run thousands of cases in one process.
//
// A line of JSON on stdin, a line of JSON on stdout:
//   {"model": path, "ranges": path, "options": {...}, "output": path, "scheme": "int8" | "int8_dynamic",
//   "untyped": [tensor ...], "read_back": bool, "verify": path}
//     fields of options as in QuantizeOptions
//     untyped: where the file holds the types that ONNX's inference tells: the tensors of which it tells none, even at
//     the opset that the options need
//     -> {"status": "ok" | "error", "message": text, "deviations": [id ...], "unlike": [what the file holds otherwise
//        than its encoding says ...] where "read_back" was asked,
//        "fault": {"error", "node", "tensor"} where the runtime's optimizations change the file's answer to the arrays
//        "0:NAME", "1:NAME" ... of the .npz "verify"}
//   {"function": "scale_zero_point" | "quantize" | "quantize_bias" | "adjust_weight_scale", ...}
//     -> {"status": "ok", ...}   the arithmetic alone
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "data/arrays.h"
#include "differential/read_back.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/plan/overrides.h"
#include "seqto/dataset.h"
#include "seqto/error.h"
#include "seqto/model.h"
#include "seqto/quantize.h"
#include "seqto/runner.h"
#include "seqto/verify.h"

namespace {

using nlohmann::json;
using namespace seqto;

template <class T>
std::optional<T> optional_of(const json& j, const char* key) {
  if (!j.contains(key) || j[key].is_null()) return {};
  return j[key].get<T>();
}

// The opsets that onnxruntime's quantizer converts to by itself; nodes stay unnamed here, as in it, where "" in a list
// of names hits all of them. infer_shapes() tells more types than ONNX's inference, which that quantizer asks.
Model as_onnxruntime_takes_it(Model model, const QuantizeOptions& options, const json& request) {
  const bool typed = request.contains("untyped");
  if (!typed) model = infer_shapes(model);
  int64_t needed = options.block_size > 0 || internal::uses_16_bits(options) ? 21 : model.opset() < 10 ? 11 : 0;
  if (model.opset() >= needed) return model;
  Model converted = infer_shapes(convert_opset(model, needed));
  if (!typed) return converted;
  const std::set<std::string> unknown = request["untyped"];
  std::erase_if(converted.graph.value_info, [&](const ValueInfo& v) { return unknown.contains(v.name); });
  return converted;
}

class Given : public Dataset {
 public:
  Given(const std::string& path, const Model& model) {
    internal::ArrayFile file(path);
    for (int64_t i = 0;; ++i) {
      Sample sample{.name = std::to_string(i)};
      for (const ValueInfo& input : model.graph.inputs)
        if (const std::string name = sample.name + ":" + input.name; file.has(name))
          sample.inputs.push_back(file.load(name));
      if (sample.inputs.empty()) return;
      samples_.push_back(std::move(sample));
    }
  }
  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  bool has_labels() const override { return false; }
  std::string fingerprint() const override { return "given"; }
  Sample read(int64_t index) const override { return samples_.at(static_cast<size_t>(index)); }

 private:
  std::vector<Sample> samples_;
};

json fault_of(const Model& model, const std::string& inputs) {
  static const auto runner = make_runner("cpu");
  const Given data(inputs, model);
  std::vector<int64_t> samples(static_cast<size_t>(data.size()));
  std::iota(samples.begin(), samples.end(), 0);
  const auto fault = find_optimization_fault(model, {data, samples, *runner});
  if (!fault) return nullptr;
  return {{"error", fault->error}, {"node", fault->node}, {"tensor", fault->tensor}};
}

json quantize_model(const json& request) {
  QuantizeOptions options = quantize_options_from_json(request.at("options").dump());
  Model model = as_onnxruntime_takes_it(load_model(request.at("model").get<std::string>()), options, request);
  std::vector<std::string> excluded = std::move(options.exclude);
  options.exclude.clear();
  Quantizer quantizer(std::move(model), load_ranges(request.at("ranges").get<std::string>()), options);
  const Scheme scheme = parse_scheme(request.value("scheme", "int8"));
  Model quantized = quantizer.quantize_excluding(excluded, scheme);
  save_model(quantized, request.at("output").get<std::string>());
  json reply{{"deviations", quantizer.deviations()}};
  if (request.contains("verify")) reply["fault"] = fault_of(quantized, request["verify"].get<std::string>());
  if (!request.value("read_back", false)) return reply;
  std::vector<std::string> unlike = internal::ReadBack(*quantizer.encoding(), quantized).unlike();
  const Corrections other = internal::other_codes(*quantizer.encoding(), quantizer.model());
  const Model corrected = quantizer.quantize_excluding(excluded, scheme, {other});
  for (const std::string& text : internal::ReadBack(*quantizer.encoding(), corrected).unlike())
    unlike.push_back(text + ", with corrections");
  if (!other.empty() && equal(corrected, quantized)) unlike.push_back("the corrections are not in the file");
  reply["unlike"] = unlike;
  reply["corrected"] = other.rounding.size();
  return reply;
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
  auto min_real_range = optional_of<double>(j, "min_real_range");
  if (name == "scale_zero_point") {
    float rmin = j.at("rmin"), rmax = j.at("rmax");
    auto r = j.value("snapped", false)
                 ? snapped_scale_zero_point(rmin, rmax, min_real_range)
                 : scale_zero_point(rmin, rmax, {quant_limits(type, reduce, symmetric), symmetric, min_real_range});
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
