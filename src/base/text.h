// Room: base. Small things done with text.
#pragma once

#include <string>
#include <string_view>

namespace seqto::internal {

inline std::string without_suffix(const std::string& text, std::string_view suffix) {
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

}  // namespace seqto::internal
