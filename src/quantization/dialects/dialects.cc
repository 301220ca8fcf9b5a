#include "quantization/dialects/dialects.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 6> kNames{"seqto", "onnxruntime", "nncf", "tensorrt", "aimet", "quark"};

bool has_any(const json& object, std::initializer_list<const char*> keys) {
  return object.is_object() &&
         std::any_of(keys.begin(), keys.end(), [&](const char* key) { return object.contains(key); });
}

Dialect dialect_of_list(const json& list) {
  for (const json& entry : list) {
    if (entry.is_array()) return Dialect::kQuark;
    if (!entry.is_string()) continue;
    const auto& text = entry.get_ref<const std::string&>();
    if (text.starts_with("{re}")) return Dialect::kNncf;
    if (text.starts_with('^')) return Dialect::kQuark;
  }
  return Dialect::kOnnxruntime;
}

bool is_overrides(const json& object) {
  return object.is_object() && !object.empty() && std::all_of(object.begin(), object.end(), [](const json& entries) {
           return entries.is_array() && !entries.empty() && entries.front().is_object();
         });
}

// A list of NAME:PRECISION.
bool is_layer_precisions(const std::string& text) {
  if (text.find("--layerPrecisions") != std::string::npos) return true;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string last = text.substr(colon + 1, text.find_last_not_of(" \t\r\n") - colon);
  return last == "fp32" || last == "fp16" || last == "bf16" || last == "int8" || last == "fp8" || last == "int32";
}

}  // namespace

std::string_view to_string(Dialect dialect) { return kNames[static_cast<size_t>(dialect)]; }

Dialect parse_dialect(std::string_view name) {
  const auto* it = std::find(kNames.begin(), kNames.end(), name);
  if (it != kNames.end()) return static_cast<Dialect>(it - kNames.begin());
  const std::vector<std::string> known(kNames.begin(), kNames.end());
  throw Error(Code::kUsage, fmt::format("[plan] dialect '{}' found; one of {} was expected{}", name,
                                        fmt::join(known, ", "), did_you_mean(name, known)));
}

Dialect detect_dialect(const std::string& text) {
  const json file = internal::parse_json_if_any(text);
  if (file.is_discarded()) {
    if (is_layer_precisions(text)) return Dialect::kTensorrt;
  } else if (file.is_array() && !file.empty()) {
    return dialect_of_list(file);
  } else {
    if (has_any(file, {"schemes"})) return Dialect::kSeqto;
    if (has_any(file, {"encodings", "activation_encodings", "param_encodings"})) return Dialect::kAimet;
    if (has_any(file, {"ignored_scope", "ignored_scopes", "names", "patterns", "types", "subgraphs"}))
      return Dialect::kNncf;
    if (has_any(file, {"exclude", "layer_type_config"})) return Dialect::kQuark;
    if (has_any(file, {"nodes_to_exclude", "nodes_to_quantize", "TensorQuantOverrides", "extra_options", "quantization",
                       "options"}) ||
        is_overrides(file))
      return Dialect::kOnnxruntime;
  }
  throw Error(
      Code::kInvalidInput,
      fmt::format("[plan] a text in no known dialect found; one of {} was expected (docs/reference/dialects.md); check "
                  "the file, or say --from",
                  fmt::join(kNames, ", ")));
}

ForeignPlan read_plan(const std::string& text, Dialect dialect, const Model& model) {
  if (dialect == Dialect::kSeqto) return {plan_from_json(text), {}, {}};
  if (dialect == Dialect::kTensorrt) return internal::read_tensorrt(text, model);
  try {
    const json file = internal::parse_json(text);
    switch (dialect) {
      case Dialect::kNncf:
        return internal::read_nncf(file, model);
      case Dialect::kQuark:
        return internal::read_quark(file, model);
      case Dialect::kAimet:
        return internal::read_aimet(file, model);
      default:
        return internal::read_onnxruntime(file, model);
    }
  } catch (const json::exception& error) {
    throw Error(Code::kInvalidInput, fmt::format("[plan] {}; {}'s form was expected, see docs/reference/dialects.md",
                                                 error.what(), to_string(dialect)));
  }
}

namespace {

PlanText written(const ForeignPlan& plan, Dialect dialect, const Model& model) {
  switch (dialect) {
    case Dialect::kOnnxruntime:
      return internal::write_onnxruntime(plan, model);
    case Dialect::kNncf:
      return internal::write_nncf(plan, model);
    case Dialect::kTensorrt:
      return internal::write_tensorrt(plan, model);
    case Dialect::kAimet:
      return internal::write_aimet(plan);
    case Dialect::kQuark:
      return internal::write_quark(plan, model);
    default:
      break;
  }
  PlanText result{plan_to_json(plan.plan), {}};
  if (!plan.encodings.empty())
    result.notes.push_back(fmt::format("{} encodings of tensors have no place in a plan; onnxruntime's dialect has one",
                                       plan.encodings.size()));
  return result;
}

}  // namespace

PlanText write_plan(const ForeignPlan& plan, Dialect dialect, const Model& model) {
  PlanText result = written(plan, dialect, model);
  if (dialect != Dialect::kSeqto && !plan.plan.options.empty())
    result.notes.push_back(fmt::format("the fields of {} layers' schemes have no place in {}'s dialect",
                                       plan.plan.options.size(), to_string(dialect)));
  return result;
}

}  // namespace seqto
