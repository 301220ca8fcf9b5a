#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hash.h"
#include "base/json.h"
#include "quantization/plan/plan_json.h"
#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

constexpr std::array<std::pair<Scheme, std::string_view>, 7> kSchemes{{{Scheme::kFloat32, "float32"},
                                                                       {Scheme::kFloat16, "float16"},
                                                                       {Scheme::kInt8, "int8"},
                                                                       {Scheme::kInt8Dynamic, "int8_dynamic"},
                                                                       {Scheme::kInt8Weights, "int8_weights"},
                                                                       {Scheme::kInt4Weights, "int4_weights"},
                                                                       {Scheme::kInt8wInt16a, "int8w_int16a"}}};
constexpr int64_t kVersion = 1;                                                          // of the JSON form
constexpr std::array<std::string_view, 3> kInt4Formats{"matmulnbits", "qdq", "folded"};  // as Int4Format has them

}  // namespace

std::string_view to_string(Scheme scheme) {
  for (auto [s, name] : kSchemes)
    if (s == scheme) return name;
  return "?";
}

Scheme parse_scheme(std::string_view name) {
  std::vector<std::string> known;
  for (auto [s, n] : kSchemes) {
    if (n == name) return s;
    known.emplace_back(n);
  }
  throw Error(Code::kUsage, fmt::format("[plan] scheme '{}' found; one of {} expected{}", name, fmt::join(known, " "),
                                        did_you_mean(name, known)));
}

std::string_view to_string(QuantFormat format) { return format == QuantFormat::kQdq ? "qdq" : "qoperator"; }

QuantFormat parse_quant_format(std::string_view name) {
  for (QuantFormat format : {QuantFormat::kQdq, QuantFormat::kQoperator})
    if (to_string(format) == name) return format;
  throw Error(Code::kUsage, fmt::format("[quantize] format '{}' found; one of qdq qoperator expected", name));
}

std::string_view to_string(Int4Format format) { return kInt4Formats[static_cast<size_t>(format)]; }

Int4Format parse_int4_format(std::string_view name) {
  const auto* found = std::ranges::find(kInt4Formats, name);
  if (found != kInt4Formats.end()) return static_cast<Int4Format>(found - kInt4Formats.begin());
  throw Error(Code::kUsage,
              fmt::format("[quantize] 4-bit format '{}' found; matmulnbits, qdq or folded expected", name));
}

const std::vector<std::string>& default_op_types(Scheme scheme) {
  // onnxruntime's list for integer operators, with the Gemm that it turns into MatMul and Add.
  static const std::vector<std::string> kDynamic{
      "Attention", "Conv", "EmbedLayerNormalization", "Gather", "Gemm", "LSTM", "MatMul", "Transpose"};
  // The union of its registries for static quantization.
  static const std::vector<std::string> kStatic{"Add",
                                                "ArgMax",
                                                "AveragePool",
                                                "BatchNormalization",
                                                "Clip",
                                                "Concat",
                                                "Conv",
                                                "ConvTranspose",
                                                "CumSum",
                                                "EmbedLayerNormalization",
                                                "Flatten",
                                                "Gather",
                                                "GatherElements",
                                                "Gemm",
                                                "GlobalAveragePool",
                                                "LeakyRelu",
                                                "MatMul",
                                                "InstanceNormalization",
                                                "LayerNormalization",
                                                "MaxPool",
                                                "Mul",
                                                "Pad",
                                                "Relu",
                                                "Reshape",
                                                "Resize",
                                                "Sigmoid",
                                                "Slice",
                                                "Softmax",
                                                "Split",
                                                "Squeeze",
                                                "TopK",
                                                "Transpose",
                                                "Unsqueeze",
                                                "Where"};
  return scheme == Scheme::kInt8Dynamic ? kDynamic : kStatic;
}

std::string Plan::hash() const {
  std::string text;
  for (const auto& [layer, scheme] : schemes) {
    if (scheme == Scheme::kFloat32) continue;
    text += fmt::format("{}\n{}", layer, to_string(scheme));
    if (auto it = options.find(layer); it != options.end() && !it->second.empty())
      text += fmt::format(" {}", layer_options_to_json(it->second));
    text += '\n';
  }
  return sha256_hex(text).substr(0, 16);
}

std::string plan_to_json(const Plan& plan) {
  nlohmann::json schemes = nlohmann::json::object();
  for (const auto& [layer, scheme] : plan.schemes) {
    auto fields = plan.options.find(layer);
    if (fields == plan.options.end() || fields->second.empty()) {
      schemes[layer] = to_string(scheme);
      continue;
    }
    schemes[layer] = internal::parse_json(layer_options_to_json(fields->second));
    schemes[layer]["scheme"] = to_string(scheme);
  }
  return nlohmann::json{{"schema_version", kVersion}, {"schemes", schemes}}.dump(1);
}

namespace {

Error no_plan(const nlohmann::json::exception& error) {
  return Error(Code::kInvalidInput, fmt::format("[plan] {}; {{\"schemes\": {{layer: scheme}}}} or {{layer: "
                                                "{{\"scheme\": scheme, field: value ...}}}} was expected",
                                                error.what()));
}

using Json = nlohmann::ordered_json;

// Of two entries one would count, and nobody would know which.
Json with_single_keys(const std::string& text) {
  std::vector<std::set<std::string>> keys;
  return internal::parse_json<Json>(text, [&](int, Json::parse_event_t event, const Json& read) {
    using enum Json::parse_event_t;
    if (event == object_start) keys.emplace_back();
    else if (event == object_end) keys.pop_back();
    else if (event == key && !keys.back().insert(read.get<std::string>()).second)
      throw Error(Code::kInvalidInput,
                  fmt::format("[plan] '{}' found twice; one entry for each layer expected; leave one of them out",
                              read.get<std::string>()));
    return true;
  });
}

}  // namespace

Plan internal::plan_of(const nlohmann::ordered_json& schemes) {
  try {
    Plan plan;
    for (const auto& [layer, value] : schemes.items()) {
      if (!value.is_object()) {
        plan.schemes[layer] = parse_scheme(value.get<std::string>());
        continue;
      }
      auto fields = value;
      plan.schemes[layer] = parse_scheme(fields.at("scheme").get<std::string>());
      fields.erase("scheme");
      if (!fields.empty()) plan.options[layer] = layer_options_from_json(fields.dump());
    }
    return plan;
  } catch (const nlohmann::json::exception& error) {
    throw no_plan(error);
  }
}

Plan plan_from_json(const std::string& text) {
  try {
    const auto json = with_single_keys(text);
    constexpr std::array<std::string_view, 3> kKeys{"schema_version", "schemes", "recipe"};
    for (const auto& [key, value] : json.items())
      if (std::ranges::count(kKeys, key) == 0)
        throw Error(Code::kInvalidInput,
                    fmt::format("[plan] '{}' found beside the schemes; one of {} expected; fields "
                                "of a layer's scheme are in {{layer: {{\"scheme\": scheme, field: value}}}}",
                                key, fmt::join(kKeys, ", ")));
    if (const auto version = json.find("schema_version"); version != json.end() && *version != kVersion)
      throw Error(Code::kInvalidInput,
                  fmt::format("[plan] schema_version {} found; {} expected; update seqto, or write "
                              "the plan in this form (docs/reference/formats.md)",
                              version->dump(), kVersion));
    return internal::plan_of(json.at("schemes"));
  } catch (const nlohmann::json::exception& error) {
    throw no_plan(error);
  }
}

}  // namespace seqto
