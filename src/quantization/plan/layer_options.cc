// LayerOptions as JSON, both ways from one list of fields.
#include "base/json.h"
#include "seqto/improve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "seqto/error.h"

namespace seqto {
namespace {

using nlohmann::json;

// Calls f(name, field) for every field; Options is LayerOptions or const LayerOptions.
template <class Options, class F>
void for_each_field(Options& o, F f) {
  f("weight_type", o.weight_type);
  f("symmetric_weights", o.symmetric_weights);
  f("per_channel", o.per_channel);
  f("per_token", o.per_token);
  f("reduce_range", o.reduce_range);
  f("weight_clipping", o.weight_clipping);
  f("block_size", o.block_size);
  f("bits", o.bits);
  f("accuracy_level", o.accuracy_level);
  f("activation_type", o.activation_type);
  f("symmetric_activations", o.symmetric_activations);
  f("method", o.method);
  for (const Improver& i : improvers())
    if (i.field) f(i.field_name, o.*i.field);
}

constexpr std::string_view kRounding = "rounding", kLearned = "learned", kNearest = "nearest";

json to_json(std::string_view name, bool value) {
  return name == kRounding ? json(value ? kLearned : kNearest) : json(value);
}
json to_json(std::string_view, DataType type) { return to_string(type); }
json to_json(std::string_view, WeightClipping clipping) { return to_string(clipping); }
template <class T>
json to_json(std::string_view, const T& value) {
  return value;
}

void require(bool fits, const json& j, const char* expected) {
  if (!fits) throw Error(Code::kInvalidInput, fmt::format("{} found; {} expected", j.dump(), expected));
}

std::string word_of(const json& j) {
  require(j.is_string(), j, "a word");
  return j.get<std::string>();
}

void from_json(std::string_view name, const json& j, bool& value) {
  if (name != kRounding) {
    require(j.is_boolean(), j, "true or false");
    j.get_to(value);
    return;
  }
  const std::string word = word_of(j);
  if (word != kLearned && word != kNearest)
    throw Error(Code::kInvalidInput, fmt::format("'{}' found; learned or nearest expected", word));
  value = word == kLearned;
}
void from_json(std::string_view, const json& j, DataType& type) { type = parse_data_type(word_of(j)); }
void from_json(std::string_view, const json& j, WeightClipping& clipping) {
  clipping = parse_weight_clipping(word_of(j));
}
void from_json(std::string_view, const json& j, std::string& word) { word = word_of(j); }
template <class T>
void from_json(std::string_view, const json& j, T& number) {
  require(j.is_number_integer(), j, "a whole number");
  j.get_to(number);
}

[[noreturn]] void unknown_key(const std::string& key) {
  std::vector<std::string> known;
  const LayerOptions none;
  for_each_field(none, [&](const char* name, const auto&) { known.emplace_back(name); });
  throw Error(Code::kInvalidInput, fmt::format("[plan] field '{}' found; one of {} expected{}", key,
                                               fmt::join(known, " "), did_you_mean(key, known)));
}

}  // namespace

std::string layer_options_to_json(const LayerOptions& options) {
  json j = json::object();
  for_each_field(options, [&](const char* name, const auto& field) {
    if (field) j[name] = to_json(name, *field);
  });
  return j.dump();
}

LayerOptions layer_options_from_json(const std::string& text) {
  LayerOptions options;
  std::string key;
  try {
    const json parsed = internal::parse_json(text);
    if (!parsed.is_object()) throw Error(Code::kInvalidInput, "[plan] an object of a layer's fields was expected");
    for (const auto& [found, value] : parsed.items()) {
      key = found;
      bool known = false;
      for_each_field(options, [&](const char* name, auto& field) {
        if (key != name) return;
        known = true;
        from_json(name, value, field.emplace());
      });
      if (!known) unknown_key(key);
    }
  } catch (const json::exception& error) {
    throw Error(Code::kInvalidInput, fmt::format("[plan] field '{}': {}; correct the plan", key, error.what()));
  } catch (const Error& error) {
    if (error.code() == Code::kInvalidInput && std::string_view(error.what()).starts_with("[plan]")) throw;
    throw Error(Code::kInvalidInput, fmt::format("[plan] field '{}': {}", key, error.what()));
  }
  return options;
}

}  // namespace seqto
