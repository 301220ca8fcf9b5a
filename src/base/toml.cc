#include "base/toml.h"

#include <algorithm>

namespace seqto::internal {
namespace {

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// The quoted text that begins at `begin` ends behind what this returns: npos where a letter outside ASCII follows a
// backslash, or white space behind one.
size_t end_of_quoted(std::string_view text, size_t begin) {
  const char quote = text[begin];
  const std::string_view three = text.substr(begin, 3);
  const std::string_view closing = three == "\"\"\"" || three == "'''" ? three : text.substr(begin, 1);
  for (size_t i = begin + closing.size(); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      const size_t next = text.find_first_not_of(" \t\r\n", i + 1);
      if (next != text.npos && !is_ascii(text[next])) return text.npos;
      ++i;
    } else if (text.substr(i, closing.size()) == closing) {
      return i + closing.size() - 1;
    }
  }
  return text.size();
}

}  // namespace

std::string_view unfit_for_parser(std::string_view text) {
  constexpr int kDeepest = 100;
  constexpr std::string_view kOther = "a letter outside ASCII without quotes around it";
  int dots = 0;
  for (size_t i = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') i = end_of_quoted(text, i);
    else if (c == '#') i = std::min(text.find('\n', i), text.size()), dots = 0;
    else if (c == '.' && ++dots > kDeepest) return "a key of more than 100 parts";
    else if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) dots = 0;
    if (i == text.npos || !is_ascii(c)) return kOther;
  }
  return "";
}

}  // namespace seqto::internal
