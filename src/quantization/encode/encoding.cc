#include "quantization/encode/encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json.h"
#include "model/op_traits.h"

namespace seqto::internal {
namespace {

using nlohmann::json;

json params_to_json(const QuantParams& params) {
  json j{{"type", to_string(params.type)}, {"scale", params.scale}, {"zero_point", params.zero_point}};
  if (params.axis) j["axis"] = *params.axis;
  if (params.block_size > 0) j["block_size"] = params.block_size;
  if (params.reduced) j["reduced"] = true;
  return j;
}

json tensor_to_json(const EncodedTensor& tensor) {
  json j = params_to_json(tensor.params);
  if (tensor.owner.tensor != tensor.name) j["same_as"] = tensor.owner.tensor;
  if (tensor.converted) {
    j["converted"] = params_to_json(*tensor.converted);
    // Sorted: a hash of it must not depend on the order of a set.
    std::vector<std::string> readers(tensor.converted_readers.begin(), tensor.converted_readers.end());
    std::ranges::sort(readers);
    j["converted"]["readers"] = std::move(readers);
  }
  if (tensor.codes) j["codes"] = shape_to_json(*tensor.codes);
  return j;
}

std::string form_name(const EncodedWeight& weight) {
  static constexpr std::array kNames{"folded", "float16", "qdq", "gather", "matmulnbits"};
  const std::string name = kNames[static_cast<size_t>(weight.form)];
  if (weight.form == StoredForm::kFloat16) return name;
  if (weight.form == StoredForm::kFolded) return fmt::format("{} {}", name, weight.stored.bits);
  const bool symmetric = weight.stored.zero_point.bytes().empty();
  return fmt::format("{} {} {} {}", name, weight.block_size, weight.stored.bits, symmetric);
}

json layers_to_json(const Encoding& encoding) {
  json layers = json::object();
  for (const auto& [layer, scheme] : encoding.layers) {
    layers[layer] = parse_json(layer_options_to_json(scheme.fields));
    layers[layer]["scheme"] = to_string(scheme.scheme);
  }
  for (const auto& [layer, ids] : encoding.layer_deviations) layers[layer]["deviations"] = ids;
  return layers;
}

}  // namespace

json shape_to_json(const Tensor& tensor) {
  const auto bytes = tensor.bytes();
  return {{"type", to_string(tensor.type())},
          {"dims", tensor.dims()},
          {"sha256", sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()})}};
}

std::set<size_t> EncodedHalves::inputs(size_t node) const {
  std::set<size_t> result;
  for (const TypeVariable& v : variables[node]) result.insert(v.inputs.begin(), v.inputs.end());
  return result;
}

bool takes_either_type(const Node& node) { return is_shape(node) || is_size(node); }

EncodedTensor& Encoding::add_tensor(const std::string& name, const QuantParams& params) {
  EncodedTensor& tensor = tensors.emplace_back();
  tensor.name = tensor.owner.tensor = name;
  tensor.params = params;
  return tensor;
}

void Encoding::add(Encoding step) {
  std::ranges::move(step.tensors, std::back_inserter(tensors));
  std::ranges::move(step.biases, std::back_inserter(biases));
  std::ranges::move(step.weights, std::back_inserter(weights));
  std::ranges::move(step.notes, std::back_inserter(notes));
  std::ranges::move(step.sums, std::back_inserter(sums));
  for (const std::string& id : step.deviations) deviate(id);
  for (const auto& [layer, ids] : step.layer_deviations)
    for (const std::string& id : ids) deviate(id, layer);
}

void Deviations::deviate(const std::string& id, const LayerId& layer) {
  auto add = [&](std::vector<std::string>& ids) {
    if (std::ranges::find(ids, id) == ids.end()) ids.emplace_back(id);
  };
  add(deviations);
  if (!layer.empty()) add(layer_deviations[layer]);
}

json to_json(const Encoding& encoding) {
  json j{{"schema_version", 1}, {"layers", layers_to_json(encoding)}};
  for (const EncodedTensor& tensor : encoding.tensors) j["tensors"][tensor.name] = tensor_to_json(tensor);
  for (const EncodedBias& bias : encoding.biases) {
    json& entry = j["biases"][bias.name] = shape_to_json(bias.values);
    entry["layer"] = bias.layer;
    if (!bias.is_float) entry["scale"] = bias.scale;
  }
  for (const EncodedWeight& weight : encoding.weights) {
    json& entry = j["weights"][weight.name][form_name(weight)] = json::array();
    for (const Tensor* tensor : {&weight.stored.codes, &weight.stored.scale, &weight.stored.zero_point})
      if (!tensor->bytes().empty()) entry.push_back(shape_to_json(*tensor));
  }
  if (encoding.graph)
    for (size_t i = 0; i < encoding.graph->removed.size(); ++i)
      if (encoding.graph->removed[i]) j["removed"].push_back(encoding.graph->nodes[i].name);
  if (!encoding.sums.empty()) j["sums"] = encoding.sums;
  j["deviations"] = encoding.deviations;
  j["notes"] = encoding.notes;
  j["hash"] = sha256_hex(j.dump()).substr(0, 16);
  return j;
}

}  // namespace seqto::internal
