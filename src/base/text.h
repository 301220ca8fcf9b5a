// Room: base. Small things done with text.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace seqto::internal {

inline std::string without_suffix(const std::string& text, std::string_view suffix) {
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

// Of ASCII letters.
inline std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// For URLs: letters, digits and `plain` as they are.
inline std::string percent_encoded(std::string_view text, std::string_view plain) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (std::isalnum(code) || plain.find(c) != std::string_view::npos) result += c;
    else result += {'%', kDigits[code / 16], kDigits[code % 16]};
  }
  return result;
}

}  // namespace seqto::internal
