// Schemes with fields, as one word.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

using nlohmann::json;

json value_of(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return text;
}

}  // namespace

std::string to_string(const DetailedScheme& detailed) {
  std::string text(to_string(detailed.scheme));
  const json fields = internal::parse_json(layer_options_to_json(detailed.fields));
  for (const auto& [name, value] : fields.items())
    text += fmt::format("+{}={}", name, value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

DetailedScheme parse_detailed_scheme(std::string_view name) {
  const size_t plus = name.find('+');
  DetailedScheme result(parse_scheme(name.substr(0, plus)));
  if (plus == std::string_view::npos) return result;
  json fields = json::object();
  for (std::string_view rest = name.substr(plus + 1);;) {
    const size_t end = rest.find('+');
    const std::string_view field = rest.substr(0, end);
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw Error(Code::kUsage, fmt::format("[plan] '{}' found in scheme '{}'; FIELD=VALUE expected, as in "
                                            "int8+method=percentile+per_channel=false",
                                            field, name));
    fields[std::string(field.substr(0, equals))] = value_of(field.substr(equals + 1));
    if (end == std::string_view::npos) break;
    rest = rest.substr(end + 1);
  }
  try {
    result.fields = layer_options_from_json(fields.dump());
  } catch (const Error& error) {
    throw Error(Code::kUsage, fmt::format("{}, in scheme '{}'", error.what(), name));
  }
  return result;
}

DetailedScheme detailed_scheme(const Plan& plan, const LayerId& layer) {
  const auto scheme = plan.schemes.find(layer);
  if (scheme == plan.schemes.end()) return {};
  const auto fields = plan.options.find(layer);
  return {scheme->second, fields == plan.options.end() ? LayerOptions() : fields->second};
}

}  // namespace seqto
