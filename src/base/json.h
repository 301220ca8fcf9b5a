// Room: base. The one door for JSON texts, which keeps out what is nested deeper than a stack holds.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

// Compiled once, in json_templates.cc, not in every file that touches JSON.
extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;
extern template class nlohmann::detail::lexer<nlohmann::json, nlohmann::detail::iterator_input_adapter<const char*>>;
extern template class nlohmann::detail::parser<nlohmann::json, nlohmann::detail::iterator_input_adapter<const char*>>;

namespace seqto::internal {

// Far above any file of ours or of another tool. nlohmann copies, compares and writes values by recursion.
constexpr int kDeepestJson = 100;
constexpr char kTooDeepJson[] = "more than 100 lists and objects inside each other";

// Where the text is nested deeper than kDeepestJson.
std::optional<size_t> too_deep_at(std::string_view text);
// Throws Error{kInvalidInput}.
[[noreturn]] void refuse_deep_json(size_t at);

// Throws nlohmann's parse_error, which callers turn into an Error that names the file. `look` sees what is read, as
// nlohmann's callbacks do.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text, const typename Json::parser_callback_t& look = nullptr) {
  if (auto at = too_deep_at(text)) throw nlohmann::json::parse_error::create(101, *at, kTooDeepJson, nullptr);
  return Json::parse(text, look);
}

// A discarded value where the text is no JSON. Throws Error{kInvalidInput} where it is nested too deep.
template <class Json = nlohmann::json>
Json parse_json_if_any(std::string_view text) {
  if (auto at = too_deep_at(text)) refuse_deep_json(*at);
  return Json::parse(text, nullptr, false);
}

}  // namespace seqto::internal
