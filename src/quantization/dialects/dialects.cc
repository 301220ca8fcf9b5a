#include "quantization/dialects/dialects.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "base/json.h"
#include "quantization/plan/unknown_layers.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using nlohmann::json;

// As Dialect has them.
struct Row {
  std::string_view name;
  std::span<const char* const> keys;  // an object in the form has one of them; of onnxruntime's, overrides, none
  ForeignPlan (*read)(const json& file, const Model& model) = nullptr;  // null: a text that is no JSON, or our own
  PlanText (*write)(const ForeignPlan& plan, const Model& model) = nullptr;
};
constexpr const char* kOurs[] = {"schemes"};
constexpr const char* kOnnxruntimes[] = {"nodes_to_exclude",
                                         "nodes_to_quantize",
                                         "op_types_to_quantize",
                                         "TensorQuantOverrides",
                                         "extra_options",
                                         "quantization",
                                         "options"};
constexpr const char* kNncfs[] = {"ignored_scope", "ignored_scopes", "names", "patterns", "types", "subgraphs"};
constexpr const char* kAimets[] = {"encodings", "activation_encodings", "param_encodings"};
constexpr const char* kQuarks[] = {"exclude", "layer_type_config", "specific_layer_config"};
constexpr Row kDialects[] = {{"seqto", kOurs},
                             {"onnxruntime", kOnnxruntimes, internal::read_onnxruntime, internal::write_onnxruntime},
                             {"nncf", kNncfs, internal::read_nncf, internal::write_nncf},
                             {"tensorrt", {}, nullptr, internal::write_tensorrt},
                             {"aimet", kAimets, internal::read_aimet, internal::write_aimet},
                             {"quark", kQuarks, internal::read_quark, internal::write_quark}};

const Row& row_of(Dialect dialect) { return kDialects[static_cast<size_t>(dialect)]; }

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const Row& row : kDialects) result.emplace_back(row.name);
  return result;
}

bool has_any(const json& object, std::span<const char* const> keys) {
  return object.is_object() && std::ranges::any_of(keys, [&](const char* key) { return object.contains(key); });
}

[[noreturn]] void refuse_form(const std::string& found, Dialect dialect) {
  throw Error(Code::kInvalidInput,
              fmt::format("[plan] {} found; {}'s form was expected, see docs/reference/dialects.md; without --from it "
                          "is seen in the file",
                          found, to_string(dialect)));
}

// Of another form nothing would be found to exclude, without a word.
void require_keys(const json& file, Dialect dialect) {
  const auto keys = row_of(dialect).keys;
  if (file.is_object() && !has_any(file, keys))
    refuse_form(fmt::format("none of the keys {}", fmt::join(keys, ", ")), dialect);
}

// Our own, of the layers that the model has.
ForeignPlan read_own(const std::string& text, const Model& model) {
  ForeignPlan own{plan_from_json(text), {}, {}};
  internal::UnknownLayers unknown = internal::unknown_layers(own.plan, model);
  for (const LayerId& layer : unknown.names) own.plan.schemes.erase(layer), own.plan.options.erase(layer);
  if (!unknown.note.empty()) own.notes.push_back(std::move(unknown.note));
  return own;
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

std::string_view to_string(Dialect dialect) { return row_of(dialect).name; }

Dialect parse_dialect(std::string_view name) {
  const Row* row = std::ranges::find(kDialects, name, &Row::name);
  if (row != std::end(kDialects)) return static_cast<Dialect>(row - kDialects);
  throw Error(Code::kUsage, fmt::format("[plan] dialect '{}' found; one of {} was expected{}", name,
                                        fmt::join(names(), ", "), did_you_mean(name, names())));
}

Dialect detect_dialect(const std::string& text) {
  const json file = internal::parse_json_if_any(text);
  if (file.is_discarded()) {
    if (is_layer_precisions(text)) return Dialect::kTensorrt;
  } else if (file.is_array() && !file.empty()) {
    return dialect_of_list(file);
  } else {
    for (const Dialect d : {Dialect::kSeqto, Dialect::kAimet, Dialect::kNncf, Dialect::kQuark, Dialect::kOnnxruntime})
      if (has_any(file, row_of(d).keys)) return d;
    if (is_overrides(file)) return Dialect::kOnnxruntime;
  }
  throw Error(
      Code::kInvalidInput,
      fmt::format("[plan] a text in no known dialect found; one of {} was expected (docs/reference/dialects.md); check "
                  "the file, or say --from",
                  fmt::join(names(), ", ")));
}

ForeignPlan read_plan(const std::string& text, Dialect dialect, const Model& model) {
  if (dialect == Dialect::kSeqto) return read_own(text, model);
  if (dialect == Dialect::kTensorrt) {
    if (!internal::parse_json_if_any(text).is_discarded()) refuse_form("JSON", dialect);
    return internal::read_tensorrt(text, model);
  }
  try {
    const json file = internal::parse_json(text);
    if (dialect != Dialect::kOnnxruntime) require_keys(file, dialect);
    return row_of(dialect).read(file, model);
  } catch (const json::exception& error) {
    throw Error(Code::kInvalidInput, fmt::format("[plan] {}; {}'s form was expected, see docs/reference/dialects.md",
                                                 error.what(), to_string(dialect)));
  }
}

PlanText write_plan(const ForeignPlan& plan, Dialect dialect, const Model& model) {
  if (dialect == Dialect::kSeqto) {
    PlanText own{plan_to_json(plan.plan), {}};
    if (!plan.encodings.empty())
      own.notes.push_back(fmt::format("{} encodings of tensors have no place in a plan; onnxruntime's dialect has one",
                                      plan.encodings.size()));
    return own;
  }
  PlanText result = row_of(dialect).write(plan, model);
  if (!plan.plan.options.empty())
    result.notes.push_back(fmt::format("the fields of {} layers' schemes have no place in {}'s dialect",
                                       plan.plan.options.size(), to_string(dialect)));
  return result;
}

}  // namespace seqto
