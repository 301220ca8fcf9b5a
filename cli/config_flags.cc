#include "config_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <cmath>
#include <filesystem>
#include <set>

#include "seqto/error.h"
#include "seqto/hub.h"
#include "seqto/tune.h"

namespace seqto::cli {
namespace {

namespace fs = std::filesystem;
using Kind = Setting::Kind;

std::string name_of(const CLI::Option* option) {
  return option->get_lnames().empty() ? option->get_single_name() : option->get_lnames().front();
}

bool is_flag(const CLI::Option* option) { return option->get_expected_min() == 0 && option->get_expected_max() <= 1; }
bool takes_several(const CLI::Option* option) {
  return option->get_items_expected_max() > 1 || (option->get_trigger_on_parse() && !is_flag(option));
}
bool is_number(const CLI::Option* option) {
  std::string type = option->get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
}

bool configurable(const CLI::Option* option) {
  static const std::set<std::string> kNot{"help", "config", "print-config", "begin"};
  return option->get_configurable() && !kNot.contains(name_of(option));
}

std::vector<std::string> known_names(const CLI::App* word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : word->get_options())
    if (configurable(option)) {
      if (option->get_lnames().empty()) names.push_back(name_of(option));
      for (const auto& name : option->get_lnames()) names.push_back(name);
    }
  return names;
}

// A value that names a file or folder, where the same flag may also take a name (imagenet, libx.so, hub:NAME).
bool is_path(const CLI::Option* option, const std::string& value) {
  static const std::set<std::string> kTypes{"PATH", "FILE", "FOLDER", "TEXT:FILE"};
  static const std::set<std::string> kAlways{
      "data",   "labels",  "output", "ranges",  "plan",  "quantized", "model",     "reference", "candidate",   "report",
      "models", "subject", "lock",   "against", "junit", "markdown",  "hub-cache", "decoder",   "exclude-from"};
  static const std::set<std::string> kWithSlash{"runtime-library", "tvm-plugin"};
  const std::string name = name_of(option);
  if (value.empty() || names_hub_model(value)) return false;
  if (name == "data" && value == "random") return false;
  if (name == "target") return value.ends_with(".toml");
  if (name == "preprocess")
    return value.front() != '{' && (value.ends_with(".json") || value.find('/') != std::string::npos);
  return kAlways.contains(name) || kTypes.contains(option->get_type_name()) ||
         (kWithSlash.contains(name) && value.find('/') != std::string::npos);
}

// Also of the file behind a name: "nme=points.json".
std::string path_from(const fs::path& folder, const CLI::Option* option, const std::string& value) {
  if (is_path(option, value)) return (folder / value).lexically_normal().string();
  const size_t sign = value.find('=');
  if (sign == std::string::npos || !fs::is_regular_file(folder / value.substr(sign + 1))) return value;
  return value.substr(0, sign + 1) + (folder / value.substr(sign + 1)).lexically_normal().string();
}

// In quotes where the shell would not take it as one word.
std::string as_typed(const std::string& value) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+%@";
  if (!value.empty() && value.find_first_not_of(kPlain) == std::string::npos) return value;
  std::string quoted = "'";
  for (const char c : value) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

[[noreturn]] void fail(const Setting& setting, const std::string& expected) {
  std::string found = config_to_toml(std::span(&setting, 1));
  found.pop_back();  // the end of the line
  throw Error(Code::kInvalidInput, fmt::format("[config] {}: {} found; {} was expected; --help tells what --{} takes",
                                               setting.where, found, expected, setting.name));
}

void check_kinds(const Setting& setting, const CLI::Option* option) {
  if (setting.list && !takes_several(option)) fail(setting, is_flag(option) ? "true or false" : "one value");
  for (const auto& value : setting.values) {
    if (is_flag(option) && value.kind != Kind::kBool) fail(setting, "true or false");
    if (is_number(option) && value.kind == Kind::kBool) fail(setting, "a number");
  }
}

void apply(const Setting& setting, CLI::Option* option, const fs::path& folder) {
  check_kinds(setting, option);
  try {
    for (const auto& value : setting.values) {
      std::string text = path_from(folder, option, value.text);
      if (option->get_trigger_on_parse()) option->clear();
      option->add_result(is_flag(option) ? option->get_flag_value(setting.name, text) : text);
      if (option->get_trigger_on_parse()) option->run_callback();
    }
    if (!option->get_trigger_on_parse() && !setting.values.empty()) option->run_callback();
  } catch (const CLI::ParseError&) {
    fail(setting, option->get_type_name());
  }
}

// Flags that are given stay; all others are set.
void apply_file(CLI::App* word, const fs::path& file) {
  fs::path folder = fs::absolute(file).parent_path();
  std::vector<Setting> settings;
  if (is_published_config(file)) {
    PublishedConfig published = read_published_config(file);
    // The log is made later, once -q and -v are known.
    for (const auto& warning : published.warnings) fmt::print(stderr, "warning: {}\n", warning);
    settings = std::move(published.settings);
  } else {
    settings = read_config(file);
  }
  std::vector<std::pair<Setting, CLI::Option*>> found;
  for (Setting& setting : settings) {
    CLI::Option* option = word->get_option_no_throw("--" + setting.name);
    if (!option) option = word->get_option_no_throw(setting.name);
    if (!option || !configurable(option)) throw Error(Code::kInvalidInput, unknown_setting(setting, known_names(word)));
    if (option->count() == 0) found.emplace_back(std::move(setting), option);
  }
  std::set<const CLI::Option*> set;
  for (const auto& [setting, option] : found) {
    if (!set.insert(option).second) fail(setting, "each flag once, by one of its names,");
    apply(setting, option, folder);
  }
}

// "[int8,float32]" as CLI11 writes the default of a list.
std::vector<std::string> default_values(const CLI::Option* option) {
  std::string text = option->get_default_str();
  if (text.empty()) return {};
  if (!takes_several(option) || text.front() != '[') return {text};
  text = text.substr(1, text.size() - 2);
  return text.empty() ? std::vector<std::string>{} : CLI::detail::split(text, ',');
}

// Numbers as TOML spells them: of "08", ".5" and "5." it takes none.
Setting::Value value_for(const CLI::Option* option, const std::string& text) {
  double number = 0;
  if (is_flag(option)) return {Kind::kBool, text};
  if (!is_number(option) || !CLI::detail::lexical_cast(text, number))
    return {Kind::kText, path_from(fs::current_path(), option, text)};
  if (text.find_first_not_of("-+0123456789") != std::string::npos)
    return {Kind::kFloat,
            fmt::format("{}{}", number, std::trunc(number) == number && std::abs(number) < 1e16 ? ".0" : "")};
  const size_t digits = std::min(text.find_first_not_of("-+0"), text.size() - 1);
  return {Kind::kInteger, (text.front() == '-' ? "-" : "") + text.substr(digits)};
}

// What nobody gave is a comment: given, a default may mean more than left out, as objectives that the task decides.
std::string in_force(const CLI::App* word, const std::vector<std::string>* several) {
  std::string lines;
  for (const CLI::Option* option : word->get_options()) {
    if (!configurable(option)) continue;
    Setting setting{.name = name_of(option), .list = takes_several(option)};
    std::vector<std::string> texts = option->count() > 0 ? option->results() : default_values(option);
    if (setting.name == "device" && several) texts = *several;
    if (setting.name == "device" && !several) setting.list = false;
    for (const auto& text : texts) setting.values.push_back(value_for(option, text));
    if (setting.values.empty()) continue;
    lines += (option->count() > 0 ? "" : "# ") + config_to_toml(std::span(&setting, 1));
  }
  return lines;
}

}  // namespace

void read_config_flags(Command word, const fs::path& file) { apply_file(word.get(), file); }

std::string config_of_study(Command word, const std::vector<std::string>& several) {
  static const std::set<std::string> kOfOneRun{"output", "resume"};
  std::vector<Setting> settings;
  for (const CLI::Option* option : word.get()->get_options()) {
    const std::string name = name_of(option);
    if (!configurable(option) || kOfOneRun.contains(name)) continue;
    Setting setting{.name = name, .list = takes_several(option)};
    for (const std::string& text : name == "device" ? several : option->results())
      setting.values.push_back(value_for(option, text));
    if (!setting.values.empty()) settings.push_back(std::move(setting));
  }
  settings.push_back({.name = "output", .values = {{Kind::kText, "."}}});
  return config_to_toml(settings);
}

std::string given_for(Command word, const std::string& other) {
  const CLI::App* beside = word.get()->get_parent()->get_subcommand(other);
  std::string given;
  for (const CLI::Option* option : word.get()->get_options()) {
    const std::string name = name_of(option), flag = "--" + name;
    if (!configurable(option) || name == "output" || !beside->get_option_no_throw(flag)) continue;
    for (const std::string& value : option->results())
      if (is_flag(option)) given += value == "true" ? " " + flag : fmt::format(" {}={}", flag, value);
      else given += fmt::format(" {} {}", flag, as_typed(value));
  }
  return given;
}

void add_config_flag(Command word) {
  word.add_option_function<std::string>(
          "--config", [word](const std::string& file) { apply_file(word.get(), file); },
          "TOML file of flags by their names; the command line comes before it")
      .type_name("FILE");
}

void add_print_config_flag(Command word, const std::vector<std::string>* several) {
  word.in_detail().add_flag_callback(
      "--print-config",
      [word, several] {
        fmt::print("{}", in_force(word.get(), several));
        end_parsing();
      },
      "Print the configuration in force, as --config reads it, defaults as comments, and do nothing else");
}

}  // namespace seqto::cli
