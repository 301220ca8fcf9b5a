// Overrides of single tensors as JSON, in onnxruntime's shape.
#include "base/json.h"
#include "seqto/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "seqto/error.h"

namespace seqto {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, DataType>, 6> kQuantTypes{{{"QInt8", DataType::kInt8},
                                                                            {"QUInt8", DataType::kUint8},
                                                                            {"QInt16", DataType::kInt16},
                                                                            {"QUInt16", DataType::kUint16},
                                                                            {"QInt4", DataType::kInt4},
                                                                            {"QUInt4", DataType::kUint4}}};

DataType quant_type(const std::string& name) {
  for (auto [n, type] : kQuantTypes)
    if (n == name) return type;
  return parse_data_type(name);
}

void check_keys(const json& entry, std::initializer_list<std::string_view> more) {
  static constexpr std::array<std::string_view, 7> kKnown{"quant_type", "scale",        "zero_point", "symmetric",
                                                          "rmin",       "reduce_range", "rmax"};
  for (const auto& [key, value] : entry.items()) {
    bool known = std::find(kKnown.begin(), kKnown.end(), key) != kKnown.end() ||
                 std::find(more.begin(), more.end(), key) != more.end();
    if (!known) throw Error(Code::kInvalidInput, fmt::format("key '{}' is unknown", key));
  }
}

template <class T>
void read(const json& entry, const char* key, std::optional<T>& field) {
  if (auto it = entry.find(key); it != entry.end() && !it->is_null()) field = it->get<T>();
}

void read_params(const json& entry, ParamsOverride& o) {
  if (auto it = entry.find("quant_type"); it != entry.end()) o.quant_type = quant_type(it->get<std::string>());
  read(entry, "scale", o.scale);
  read(entry, "zero_point", o.zero_point);
  read(entry, "symmetric", o.symmetric);
  read(entry, "reduce_range", o.reduce_range);
  read(entry, "rmin", o.rmin);
  read(entry, "rmax", o.rmax);
}

TensorOverride read_override(const json& entry) {
  check_keys(entry, {"axis", "convert", "per_channel", "weight_clipping", "block_size"});
  TensorOverride o;
  read_params(entry, o);
  read(entry, "axis", o.axis);
  read(entry, "per_channel", o.per_channel);
  if (auto it = entry.find("weight_clipping"); it != entry.end())
    o.weight_clipping = parse_weight_clipping(it->get<std::string>());
  read(entry, "block_size", o.block_size);
  if (auto it = entry.find("convert"); it != entry.end()) {
    check_keys(*it, {"recv_nodes"});
    read_params(*it, o.convert.emplace());
    read(*it, "recv_nodes", o.convert->recv_nodes);
  }
  return o;
}

json params_json(const ParamsOverride& o) {
  json j = json::object();
  if (o.quant_type) j["quant_type"] = to_string(*o.quant_type);
  if (o.scale) j["scale"] = *o.scale;
  if (o.zero_point) j["zero_point"] = *o.zero_point;
  if (o.symmetric) j["symmetric"] = *o.symmetric;
  if (o.reduce_range) j["reduce_range"] = *o.reduce_range;
  if (o.rmin) j["rmin"] = *o.rmin;
  if (o.rmax) j["rmax"] = *o.rmax;
  return j;
}

}  // namespace

TensorOverrides tensor_overrides_from_json(const std::string& text) {
  TensorOverrides overrides;
  std::string tensor;
  try {
    const json parsed = internal::parse_json(text);
    for (const auto& [name, entries] : parsed.items()) {
      tensor = name;
      if (!entries.is_array()) throw Error(Code::kInvalidInput, "no list was found");
      auto& list = overrides[name];
      for (const json& entry : entries) list.push_back(read_override(entry));
    }
  } catch (const std::exception& error) {
    throw Error(Code::kInvalidInput,
                fmt::format("[overrides] tensor '{}': {}; {{tensor: [{{\"quant_type\": \"QInt16\", ...}}]}} was "
                            "expected; see include/seqto/plan.h for the keys",
                            tensor, error.what()));
  }
  return overrides;
}

std::string tensor_overrides_to_json(const TensorOverrides& overrides) {
  json j = json::object();
  for (const auto& [name, entries] : overrides) {
    json list = json::array();
    for (const TensorOverride& o : entries) {
      json entry = params_json(o);
      if (o.axis) entry["axis"] = *o.axis;
      if (o.per_channel) entry["per_channel"] = *o.per_channel;
      if (o.weight_clipping) entry["weight_clipping"] = to_string(*o.weight_clipping);
      if (o.block_size) entry["block_size"] = *o.block_size;
      if (o.convert) {
        entry["convert"] = params_json(*o.convert);
        if (o.convert->recv_nodes) entry["convert"]["recv_nodes"] = *o.convert->recv_nodes;
      }
      list.push_back(std::move(entry));
    }
    j[name] = std::move(list);
  }
  return j.dump();
}

}  // namespace seqto
