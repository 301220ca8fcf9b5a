#include "word_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

namespace seqto::cli {
namespace {

bool is_name(const std::string& text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return !std::isupper(c) && !std::isspace(c); });
}

// "TEXT:{none,mse}" as the parser's own check of names writes it, or "imagenet|unit|none|FILE" as a type's name.
std::vector<std::string> choices_in(const std::string& type) {
  std::vector<std::string> parts;
  const size_t open = type.find('{'), close = type.find('}');
  if (open != std::string::npos && close != std::string::npos)
    parts = CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
  else if (type.find('|') != std::string::npos) parts = CLI::detail::split(type, '|');
  std::erase_if(parts, [](const std::string& part) { return !is_name(part); });
  return parts;
}

bool is_number(const std::string& type) {
  return type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
}

bool allows_file(const Flag& flag) {
  if (flag.type.find('|') != std::string::npos) return flag.type.find("FILE") != std::string::npos;
  return flag.choices.empty() && !is_number(flag.type) && flag.type.find('=') == std::string::npos;
}

Flag flag_of(const CLI::Option& option) {
  Flag flag{.heading = option.get_group(),
            .description = option.get_description(),
            .standard = option.get_default_str(),
            .required = option.get_required(),
            .repeated = option.get_items_expected_max() > 1,
            .delimiter = option.get_delimiter()};
  if (option.get_positional()) {
    flag.names.push_back(option.get_name(true));
    flag.heading = "Input";
  } else {
    for (const auto& name : option.get_snames()) flag.names.push_back("-" + name);
    for (const auto& name : option.get_lnames()) flag.names.push_back("--" + name);
  }
  const bool valueless = option.get_expected_min() == 0 && option.get_expected_max() <= 1;
  if (valueless) {
    flag.standard.clear();
    return flag;
  }
  const auto& longs = option.get_lnames();
  for (size_t i = 1; i < longs.size(); ++i) {
    flag.aliases.push_back(flag.names.back());
    flag.names.pop_back();
  }
  const std::string type = option.get_type_name();
  flag.choices = choices_in(type);
  flag.type = type.find('|') == std::string::npos ? type.substr(0, type.find(':')) : type;
  flag.takes_file = allows_file(flag);
  return flag;
}

Word word_of(const CLI::App& app, const std::string& path) {
  Word word{.path = path, .description = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? word.positionals : word.flags).push_back(flag_of(*option));
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); }))
    word.words.push_back(word_of(*below, path.empty() ? below->get_name() : path + " " + below->get_name()));
  return word;
}

void collect(const Word& word, std::vector<const Word*>& found) {
  found.push_back(&word);
  for (const Word& below : word.words) collect(below, found);
}

}  // namespace

Word describe(Command app) { return word_of(*app.get(), ""); }

Word describe(Command app, const std::vector<std::string>& path) {
  const CLI::App* at = app.get();
  std::string name;
  for (const std::string& word : path) {
    at = at->get_subcommand(word);
    name += (name.empty() ? "" : " ") + word;
  }
  return word_of(*at, name);
}

std::vector<const Word*> all_words(const Word& root) {
  std::vector<const Word*> found;
  collect(root, found);
  return found;
}

}  // namespace seqto::cli
