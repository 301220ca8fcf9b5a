// Overrides of single tensors as JSON, in onnxruntime's shape.
#include "base/json.h"
#include "seqto/plan.h"

#include <fmt/format.h>

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

// Calls f(key, field) for every field; Override is one of those of plan.h, const or not.
template <class Override, class F>
void for_each_field(Override& o, F f) {
  f("quant_type", o.quant_type);
  f("scale", o.scale);
  f("zero_point", o.zero_point);
  f("symmetric", o.symmetric);
  f("reduce_range", o.reduce_range);
  f("rmin", o.rmin);
  f("rmax", o.rmax);
  if constexpr (requires { o.recv_nodes; }) f("recv_nodes", o.recv_nodes);
  if constexpr (requires { o.convert; }) {
    f("axis", o.axis);
    f("convert", o.convert);
    f("per_channel", o.per_channel);
    f("weight_clipping", o.weight_clipping);
    f("block_size", o.block_size);
  }
}

template <class Override>
Override read_override(const json& entry);
template <class Override>
json override_json(const Override& o);

template <class T>
void read(const json& value, std::optional<T>& field) {
  if (!value.is_null()) field = value.get<T>();
}
void read(const json& value, std::optional<DataType>& field) { field = quant_type(value.get<std::string>()); }
void read(const json& value, std::optional<WeightClipping>& field) {
  field = parse_weight_clipping(value.get<std::string>());
}
void read(const json& value, std::optional<ConvertOverride>& field) { field = read_override<ConvertOverride>(value); }

template <class T>
json to_json(const T& value) {
  return value;
}
json to_json(DataType type) { return to_string(type); }
json to_json(WeightClipping clipping) { return to_string(clipping); }
json to_json(const ConvertOverride& convert) { return override_json(convert); }

template <class Override>
Override read_override(const json& entry) {
  Override o;
  for (const auto& [key, value] : entry.items()) {
    bool known = false;
    for_each_field(o, [&](const char* name, auto& field) {
      if (key != name) return;
      known = true;
      read(value, field);
    });
    if (!known) throw Error(Code::kInvalidInput, fmt::format("key '{}' is unknown", key));
  }
  return o;
}

template <class Override>
json override_json(const Override& o) {
  json j = json::object();
  for_each_field(o, [&](const char* name, const auto& field) {
    if (field) j[name] = to_json(*field);
  });
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
      for (const json& entry : entries) list.push_back(read_override<TensorOverride>(entry));
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
    for (const TensorOverride& o : entries) list.push_back(override_json(o));
    j[name] = std::move(list);
  }
  return j.dump();
}

}  // namespace seqto
