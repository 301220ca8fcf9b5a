#include "seqto/tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/files.h"
#include "base/names.h"
#include "base/toml.h"
#include "seqto/error.h"

namespace seqto {
namespace {

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(Code::kInvalidInput, fmt::format("[config] {}: {}", where, what));
}

Setting::Value value_of(const toml::node& node, const std::string& where) {
  using Kind = Setting::Kind;
  if (auto value = node.value_exact<bool>()) return {Kind::kBool, *value ? "true" : "false"};
  if (auto value = node.value_exact<int64_t>()) return {Kind::kInteger, fmt::format("{}", *value)};
  if (auto value = node.value_exact<double>()) return {Kind::kFloat, fmt::format("{}", *value)};
  if (auto value = node.value_exact<std::string>()) return {Kind::kText, *value};
  std::ostringstream type;
  type << node.type();
  fail(where, fmt::format("a value of type {} found; true, false, a number, a text or a list of these was expected; "
                          "write it as the flag takes it",
                          type.str()));
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') result += {'\\', c};
    else if (code < 0x20 || code == 0x7f) result += fmt::format("\\u{:04x}", code);
    else result += c;
  }
  return result + "\"";
}

std::string as_toml(const Setting::Value& value) {
  if (value.kind == Setting::Kind::kText) return quoted(value.text);
  // TOML tells 1.0 and 1 apart.
  bool whole = value.kind == Setting::Kind::kFloat && value.text.find_first_not_of("-0123456789") == std::string::npos;
  return whole ? value.text + ".0" : value.text;
}

}  // namespace

std::vector<Setting> read_config(const std::filesystem::path& path) {
  std::string text = read_file(path), file = path.string();
  toml::parse_result parsed = internal::parse_toml(text, file);
  if (!parsed)
    fail(fmt::format("{}:{}", file, parsed.error().source().begin.line),
         fmt::format("no TOML: {}; lines as in max-evaluations = 20 were expected; see docs/reference/config.md",
                     parsed.error().description()));
  std::vector<Setting> settings;
  for (const auto& [key, node] : parsed.table()) {
    Setting setting{.name = std::string(key.str()), .where = fmt::format("{}:{}", file, node.source().begin.line)};
    if (node.is_table() || node.is_array_of_tables())
      fail(setting.where, fmt::format("table [{}] found; keys alone were expected, as in schemes = [\"int8\", "
                                      "\"float32\"]; leave the table's line out",
                                      setting.name));
    if (const toml::array* list = node.as_array()) {
      setting.list = true;
      for (const toml::node& entry : *list) setting.values.push_back(value_of(entry, setting.where));
    } else {
      setting.values.push_back(value_of(node, setting.where));
    }
    settings.push_back(std::move(setting));
  }
  // The parser keeps keys by name; messages and effects shall follow the file.
  auto line = [](const Setting& s) { return std::stoi(s.where.substr(s.where.rfind(':') + 1)); };
  std::stable_sort(settings.begin(), settings.end(),
                   [&](const Setting& a, const Setting& b) { return line(a) < line(b); });
  return settings;
}

std::string config_to_toml(std::span<const Setting> settings) {
  std::string text;
  for (const Setting& s : settings) {
    std::vector<std::string> values;
    for (const auto& value : s.values) values.push_back(as_toml(value));
    bool bare = !s.name.empty() && std::all_of(s.name.begin(), s.name.end(),
                                               [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
    std::string value = fmt::format("{}", fmt::join(values, ", "));
    text += fmt::format("{} = {}\n", bare ? s.name : quoted(s.name), s.list ? "[" + value + "]" : value);
  }
  return text;
}

std::string unknown_setting(const Setting& setting, std::span<const std::string> known) {
  auto nearest = internal::nearest_names(setting.name, known, 1);
  return fmt::format(
      "[config] {}: '{}' found; the name of a flag was expected, the nearest is '{}'; correct it or leave "
      "it out",
      setting.where, setting.name, nearest.empty() ? "" : nearest.front());
}

}  // namespace seqto
