#include "base/toml.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace seqto::internal {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

toml::parse_result refused(std::string description, std::string_view text, size_t place) {
  const auto line = static_cast<uint32_t>(1 + std::count(text.begin(), text.begin() + static_cast<long>(place), '\n'));
  return toml::parse_result(toml::parse_error(std::move(description), toml::source_position{line, 1}));
}

// Where a key of more than 1,000 parts may be. Points count at most once in a row, so that rulers in comments do not.
size_t find_deep_key(std::string_view text) {
  constexpr int kDeepest = 1000;
  int dots = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.' && (i == 0 || text[i - 1] != '.') && ++dots > kDeepest) return i;
    if (std::string_view("=,[]{}#\n").find(text[i]) != std::string_view::npos) dots = 0;
  }
  return text.npos;
}

// Where a letter outside ASCII follows a backslash and white space, which joins lines of a text.
size_t find_joined_letter(std::string_view text) {
  for (size_t i = text.find('\\'); i != text.npos; i = text.find('\\', i + 1)) {
    const size_t next = text.find_first_not_of(" \t\r\n", i + 1);
    if (next != text.npos && next > i + 1 && !is_ascii(text[next])) return next;
  }
  return text.npos;
}

}  // namespace

toml::parse_result parse_toml(std::string_view text, std::string_view file) {
  if (const size_t found = find_deep_key(text); found != text.npos)
    return refused("a key of more than 1,000 parts", text, found);
  // The parser's behaviour is undefined at letters outside ASCII where TOML has none, as in keys without quotes. With
  // another sign in their place, which TOML has in texts and comments alone, it finds those by itself.
  if (std::ranges::all_of(text, is_ascii)) return toml::parse(text, file);
  if (const size_t found = find_joined_letter(text); found != text.npos)
    return refused("a letter outside ASCII behind a backslash at a line's end", text, found);
  std::string ascii(text);
  const size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  std::replace_if(ascii.begin() + static_cast<long>(begin), ascii.end(), [](char c) { return !is_ascii(c); }, '~');
  toml::parse_result trial = toml::parse(ascii, file);
  if (trial) return toml::parse(text, file);
  std::string description(trial.error().description());
  if (description.find("'~'") != description.npos) description += " (for a letter outside ASCII, which needs quotes)";
  return toml::parse_result(toml::parse_error(std::move(description), trial.error().source()));
}

}  // namespace seqto::internal
