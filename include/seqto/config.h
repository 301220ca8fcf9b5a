// Room: orchestrator. Configuration files: the flags of a command, by their names, in TOML.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace seqto {

// One key of a configuration file: `max-evaluations = 20`, `schemes = ["int8", "float32"]`.
struct Setting {
  enum class Kind { kBool, kInteger, kFloat, kText };
  struct Value {
    Kind kind = Kind::kText;
    std::string text;  // as a flag would take it: "true", "20", "0.5", "imagenet"
  };
  std::string name;           // the flag's without its dashes, or the argument's: "model"
  std::vector<Value> values;  // one, or those of a list
  bool list = false;
  std::string where;  // "tune.toml:3", for messages
};

// The settings of a TOML file, in its order. Throws Error{kInvalidInput} with file and line for what is no TOML, for
// tables and for values that no flag takes (dates, lists of lists).
std::vector<Setting> read_config(const std::filesystem::path& path);

// The same as text; read_config() gives equal settings back (but for `where`).
std::string config_to_toml(std::span<const Setting> settings);

// The published tool's config.json (https://github.com/luludak/SeQTO) as settings of `tune`, with paths relative to the
// file, and what is to be said about it: keys that mean nothing here. docs/config.md has the table.
struct PublishedConfig {
  std::vector<Setting> settings;
  std::vector<std::string> warnings;
};
bool is_published_config(const std::filesystem::path& path);  // it begins as a JSON object
// Throws Error{kInvalidInput} naming the key.
PublishedConfig read_published_config(const std::filesystem::path& path);

// "[config] tune.toml:3: 'calibration-sampels' found; ..." with the nearest of the known names.
std::string unknown_setting(const Setting& setting, std::span<const std::string> known);

}  // namespace seqto
