// docs/reference/cli.md, made from the parser's own words and flags.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "help_text.h"

namespace seqto::cli {
namespace {

constexpr size_t kSeveral = 3;  // words that take a flag, so that it is described once for all of them

bool same(const Flag& a, const Flag& b) { return a.names == b.names && a.description == b.description; }

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string row(const Flag& flag) {
  std::string text = shown_text(flag);
  if (!flag.aliases.empty()) text += fmt::format("; also `{}`", fmt::join(flag.aliases, "`, `"));
  return fmt::format("| `{}` | {} |\n", cell(shown_name(flag)), cell(text));
}

std::string table(const std::vector<Flag>& flags) {
  std::string text;
  for (const std::string& heading : headings_of(flags)) {
    text += fmt::format("\n| {} | |\n|---|---|\n", heading);
    for (const bool detail : {false, true})
      for (const Flag& flag : flags)
        if (subject_of(flag) == heading && flag.in_detail() == detail) text += row(flag);
  }
  return text;
}

std::string section(const Word& word, const SharedFlags& shared) {
  std::string text = fmt::format("\n## {}\n\n{}.\n", word.path, word.description);
  std::vector<Flag> own = word.positionals, common;
  for (const Flag& flag : word.flags) (shared.holds(flag) ? common : own).push_back(flag);
  if (!own.empty()) text += table(own);
  std::vector<std::string> headings = headings_of(common);
  std::erase(headings, "Options");
  if (!headings.empty())
    text += fmt::format("\nAnd of [several words](#flags-of-several-words): {}.\n", fmt::join(headings, ", "));
  return text;
}

}  // namespace

bool SharedFlags::holds(const Flag& flag) const {
  return std::ranges::any_of(flags, [&](const Flag& other) { return same(other, flag); });
}

SharedFlags shared_flags(const Word& root) {
  std::vector<std::pair<Flag, size_t>> counted;
  for (const Word* word : all_words(root))
    for (const Flag& flag : word->flags) {
      const auto known = std::ranges::find_if(counted, [&](const auto& c) { return same(c.first, flag); });
      if (known == counted.end()) counted.emplace_back(flag, 1);
      else ++known->second;
    }
  SharedFlags shared;
  for (const auto& [flag, count] : counted)
    if (count >= kSeveral) shared.flags.push_back(flag);
  return shared;
}

std::string reference_page(const Word& root) {
  const SharedFlags shared = shared_flags(root);
  std::string text =
      "# Words and flags\n\nWritten by `seqto help --markdown`. `seqto WORD --help` shows the flags that most need, "
      "`--help-all` all of them.\n`--config` takes flags by the same names, older names too.\n";
  for (const Word* word : all_words(root))
    if (!word->path.empty() && word->words.empty()) text += section(*word, shared);
  return text + "\n## Flags of several words\n" + table(shared.flags);
}

}  // namespace seqto::cli
