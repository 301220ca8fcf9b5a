#include "help_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace seqto::cli {
namespace {

constexpr size_t kNameColumns = 30;

// Short enough to stand beside the flag's name; longer lists of values are part of the text.
constexpr size_t kMostType = 18;

std::string list_of(const Flag& flag) { return fmt::format("{}", fmt::join(flag.choices, "|")); }

std::string type_of(const Flag& flag) {
  if (!flag.choices.empty()) {
    const std::string all = flag.type.find('|') == std::string::npos ? list_of(flag) : flag.type;
    return all.size() <= kMostType ? all : "NAME";
  }
  if (flag.type.starts_with("INT") || flag.type.starts_with("UINT")) return "N";
  if (flag.type == "FLOAT") return "X";
  return flag.type == "TEXT" && flag.takes_file ? "PATH" : flag.type;
}

// What --help says: without the named values where they would take another line.
std::string brief(const Flag& flag) {
  Flag plain = flag;
  plain.choices.clear();
  const std::string whole = shown_text(flag);
  return whole.size() <= kHelpColumns - kNameColumns ? whole : shown_text(plain);
}

// What --help-all says: with the flag's other names.
std::string full(const Flag& flag) {
  return shown_text(flag) + (flag.aliases.empty() ? "" : fmt::format("; also {}", fmt::join(flag.aliases, ", ")));
}

bool asks_for_help(const Flag& flag) { return flag.names.back().starts_with("--help"); }

// Lines of at most `columns`, broken at spaces.
std::vector<std::string> wrapped(const std::string& text, size_t columns) {
  std::vector<std::string> lines{""};
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string part = text.substr(at, end - at);
    std::string& line = lines.back();
    if (!line.empty() && line.size() + 1 + part.size() > columns) lines.push_back(part);
    else line += (line.empty() ? "" : " ") + part;
    at = end + 1;
  }
  return lines;
}

std::string entry(const std::string& name, const std::string& text) {
  std::string all = "  " + name;
  if (name.size() + 2 < kNameColumns) all.resize(kNameColumns, ' ');
  else all += "\n" + std::string(kNameColumns, ' ');
  const auto lines = wrapped(text, kHelpColumns - kNameColumns);
  return fmt::format("{}{}\n", all, fmt::join(lines, "\n" + std::string(kNameColumns, ' ')));
}

std::string usage(const Word& word) {
  std::string text = "Usage: seqto" + (word.path.empty() ? "" : " " + word.path);
  for (const Flag& p : word.positionals) {
    const std::string name = p.names.front() + (p.repeated ? " ..." : "");
    text += p.required ? " " + name : " [" + name + "]";
  }
  text += word.words.empty() ? "" : " WORD";
  return text + " [FLAGS]\n";
}

}  // namespace

std::string subject_of(const Flag& flag) { return flag.heading.substr(0, flag.heading.find(kInDetail)); }

std::vector<std::string> headings_of(const std::vector<Flag>& flags) {
  static const std::vector<std::string> kOrder{"Input",  "Output",  "Goal",   "Limits",    "Time",  "Search",
                                               "Scheme", "Weights", "Ranges", "Improvers", "Device"};
  std::vector<std::string> found;
  for (const Flag& flag : flags)
    if (const std::string name = subject_of(flag); std::ranges::find(found, name) == found.end()) found.push_back(name);
  std::ranges::stable_sort(found, {}, [](const std::string& name) {
    if (name == "Options") return kOrder.size() + 1;
    return static_cast<size_t>(std::ranges::find(kOrder, name) - kOrder.begin());
  });
  return found;
}

std::string shown_name(const Flag& flag) {
  const std::string type = flag.names.front().starts_with('-') ? type_of(flag) : "";
  return fmt::format("{}{}{}", fmt::join(flag.names, ", "), type.empty() ? "" : " ", type);
}

std::string shown_text(const Flag& flag) {
  std::string text = flag.description;
  const bool listed = !flag.choices.empty() && type_of(flag) == "NAME";
  const bool other = flag.type.find("FILE") != std::string::npos;
  if (listed) text += fmt::format(": {}{}", fmt::join(flag.choices, ", "), other ? ", or a file" : "");
  if (!flag.standard.empty() && flag.standard != "[]") text += fmt::format(" [{}]", flag.standard);
  if (flag.required && flag.names.front().starts_with('-')) text += " (required)";
  return text;
}

std::string help_text(const Word& word, bool all) {
  std::string text = word.description + "\n" + usage(word);
  if (word.path.empty()) text += "\n";
  for (const Flag& p : word.positionals) text += entry(p.names.front(), shown_text(p));
  if (!word.words.empty()) {
    text += "Words:\n";
    for (const Word& below : word.words) text += entry(below.path.substr(below.path.rfind(' ') + 1), below.description);
    if (word.path.empty()) text += "\n";
  }
  size_t left_out = 0;
  for (const std::string& heading : headings_of(word.flags)) {
    std::string entries;
    for (const bool detail : {false, true})
      for (const Flag& flag : word.flags) {
        if (subject_of(flag) != heading || flag.in_detail() != detail) continue;
        if (!all && (detail || asks_for_help(flag))) ++left_out;
        else entries += entry(shown_name(flag), all ? full(flag) : brief(flag));
      }
    if (!entries.empty()) text += heading + ":\n" + entries;
  }
  if (!all && word.words.empty())
    text += fmt::format("--help-all: {} more flags. -v, -q and --json go with every word.\n", left_out);
  return text;
}

}  // namespace seqto::cli
