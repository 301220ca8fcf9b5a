#include "base/toml.h"

#include <algorithm>

namespace seqto::internal {
namespace {

// The quoted text that begins at `begin` ends behind what this returns.
size_t end_of_quoted(std::string_view text, size_t begin) {
  const char quote = text[begin];
  const std::string_view three = text.substr(begin, 3);
  const std::string_view closing = three == "\"\"\"" || three == "'''" ? three : text.substr(begin, 1);
  for (size_t i = begin + closing.size(); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') ++i;
    else if (text.substr(i, closing.size()) == closing) return i + closing.size() - 1;
  }
  return text.size();
}

}  // namespace

bool has_deep_keys(std::string_view text) {
  constexpr int kDeepest = 100;
  int dots = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') i = end_of_quoted(text, i);
    else if (c == '#') i = std::min(text.find('\n', i), text.size()), dots = 0;
    else if (c == '.' && ++dots > kDeepest) return true;
    else if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) dots = 0;
  }
  return false;
}

}  // namespace seqto::internal
