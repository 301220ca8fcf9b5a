#include "metrics/study_header.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "base/hash.h"
#include "base/json.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kIdentity{"model_sha256",        "model_size_bytes", "data_fingerprint",
                               "calibration_samples", "search_samples",   "evaluation_samples"};

void compare_values(std::string& text, const std::string& name, const Json& found, const Json& expected) {
  if (found == expected) return;
  if (!text.empty()) text += "; ";
  text += fmt::format("{} found {}, expected {}", name, found.dump(), expected.dump());
}

// Objects differ key by key: the whole text twice would hide the one that matters.
void compare_options(std::string& text, const std::string& name, const Json& found, const Json& expected) {
  if (!found.is_object() || !expected.is_object()) return compare_values(text, name, found, expected);
  std::set<std::string> keys;
  for (const auto& item : found.items()) keys.insert(item.key());
  for (const auto& item : expected.items()) keys.insert(item.key());
  for (const std::string& key : keys)
    compare_options(text, name + " " + key, found.value(key, Json()), expected.value(key, Json()));
}

// Fields of QuantizeOptions that were not there when the study began have the defaults.
Json with_defaults(Json options) {
  const auto own = options.find("quantize");
  if (own == options.end() || !own->is_object()) return options;
  Json all = internal::parse_json<Json>(quantize_options_to_json({}));
  all.update(*own);
  *own = std::move(all);
  return options;
}

}  // namespace

Json header_to_json(const StudyHeader& header) {
  return {{"model_path", header.model_path},
          {"model_sha256", header.model_sha256},
          {"model_size_bytes", header.model_size_bytes},
          {"data_fingerprint", header.data_fingerprint},
          {"options_json", header.options_json},
          {"environment_json", header.environment_json},
          {"calibration_samples", header.calibration_samples},
          {"search_samples", header.search_samples},
          {"evaluation_samples", header.evaluation_samples}};
}

StudyHeader header_from_json(const Json& json) {
  return {.model_path = json.at("model_path"),
          .model_sha256 = json.at("model_sha256"),
          .model_size_bytes = json.at("model_size_bytes"),
          .data_fingerprint = json.at("data_fingerprint"),
          .options_json = json.at("options_json"),
          .environment_json = json.at("environment_json"),
          .calibration_samples = json.at("calibration_samples"),
          .search_samples = json.at("search_samples"),
          .evaluation_samples = json.at("evaluation_samples")};
}

std::string study_id(const StudyHeader& header) {
  const Json all = header_to_json(header);
  Json same;
  for (const char* name : kIdentity) same[name] = all.at(name);
  const auto options = internal::parse_json_if_any<nlohmann::json>(header.options_json);  // its keys in order
  same["options"] =
      options.is_object() ? Json(nlohmann::json(with_defaults(Json(options)))) : Json(header.options_json);
  return sha256_hex(same.dump()).substr(0, 16);
}

std::string differences(const StudyHeader& found, const StudyHeader& expected) {
  std::string text;
  const Json a = header_to_json(found), b = header_to_json(expected);
  for (const char* name : kIdentity) compare_values(text, name, a.at(name), b.at(name));
  const Json mine = internal::parse_json_if_any<Json>(found.options_json);
  Json theirs = internal::parse_json_if_any<Json>(expected.options_json);
  // Studies that were begun before it was noted do without.
  if (mine.is_object() && theirs.is_object() && !mine.contains("target_sha256")) theirs.erase("target_sha256");
  bool objects = mine.is_object() && theirs.is_object();
  compare_options(text, objects ? "option" : "options_json", objects ? with_defaults(mine) : Json(found.options_json),
                  objects ? with_defaults(theirs) : Json(expected.options_json));
  return text;
}

}  // namespace seqto
