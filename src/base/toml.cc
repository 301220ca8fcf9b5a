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
      // Up to two quotes may stand before the three that close.
      size_t last = i + closing.size() - 1;
      while (closing.size() == 3 && last < i + 4 && last + 1 < text.size() && text[last + 1] == quote) ++last;
      return last;
    }
  }
  return text.size();
}

}  // namespace

std::string_view unfit_for_parser(std::string_view text) {
  constexpr int kDeepest = 100;
  int dots = 0;
  std::string open;    // the lists and tables around, in values
  bool in_key = true;  // not in a value
  char before = '\n';  // white space aside
  for (size_t i = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const bool opens = std::string_view("\n=,[{").find(before) != std::string_view::npos || (before == '.' && in_key);
      if (!opens) return "a quote in the middle of a word";
      i = end_of_quoted(text, i);
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    }
    if (i == text.npos || !is_ascii(c)) return "a letter outside ASCII without quotes around it";
    const char last = i < text.size() ? text[i] : '\n';
    if (c == '.' && ++dots > kDeepest) return "a key of more than 100 parts";
    if (std::string_view("=,[]{}#\n").find(c) != std::string_view::npos) dots = 0;
    if (c == '=') {
      if (!in_key) return "an equals sign in a value";
      in_key = false;
    } else if (c == '{' || (c == '[' && !in_key)) {
      open += c;
      in_key = c == '{';
    } else if (c == ']' || c == '}') {
      if (!open.empty()) open.pop_back();
      in_key = false;
    } else if (c == ',') {
      in_key = open.ends_with('{');
    }
    if (last == '\n' && open.empty()) in_key = true;
    if (last != ' ' && last != '\t') before = last;
  }
  return "";
}

}  // namespace seqto::internal
