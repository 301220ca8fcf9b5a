// Recipes: by name or from JSON, and their tables of values.
#include "data/preprocess.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/files.h"
#include "base/json.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using nlohmann::json;

struct FilterName {
  Preprocess::Filter filter;
  std::string_view name;
};
constexpr FilterName kFilters[] = {{Preprocess::Filter::kNearest, "nearest"},
                                   {Preprocess::Filter::kBox, "box"},
                                   {Preprocess::Filter::kBilinear, "bilinear"},
                                   {Preprocess::Filter::kBicubic, "bicubic"},
                                   {Preprocess::Filter::kLanczos, "lanczos"}};

// Reads one object; every complaint names the file and the key.
class Reader {
 public:
  Reader(const json& object, std::string file, std::string prefix, std::initializer_list<std::string_view> known)
      : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {
    if (!object.is_object()) fail("", "an object");
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        fail(key, fmt::format("one of {}", fmt::join(known, ", ")), "unknown key");
      }
    }
  }

  bool has(const char* key) const { return object_.contains(key); }
  const json& at(const char* key) const { return object_.at(key); }

  int size(const char* key, int otherwise) const {
    if (!has(key)) return otherwise;
    const json& value = at(key);
    if (!value.is_number_integer() || value < 1 || value > 65535) fail(key, "an integer from 1 to 65535");
    return value.get<int>();
  }

  int byte(const char* key, int otherwise) const {
    if (!has(key)) return otherwise;
    const json& value = at(key);
    if (!value.is_number_integer() || value < 0 || value > 255) fail(key, "an integer from 0 to 255");
    return value.get<int>();
  }

  // The position of the word; the first without the key.
  size_t choice(const char* key, std::initializer_list<std::string_view> words) const {
    if (!has(key)) return 0;
    const json& value = at(key);
    const auto found = std::ranges::find_if(words, [&](std::string_view word) { return value == word; });
    if (found == words.end()) fail(key, fmt::format("\"{}\"", fmt::join(words, "\" or \"")));
    return static_cast<size_t>(found - words.begin());
  }

  float number(const char* key, float otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_number()) fail(key, "a number");
    return finite(key, at(key));
  }

  // A number for each of three channels, or a list of one for all.
  std::vector<float> channels(const char* key, float otherwise) const {
    if (!has(key)) return std::vector<float>(3, otherwise);
    const json& value = at(key);
    const char* expected = "a list of 3 numbers, or of 1 for all channels";
    if (!value.is_array() || (value.size() != 3 && value.size() != 1)) fail(key, expected);
    std::vector<float> numbers;
    for (const json& entry : value) {
      if (!entry.is_number()) fail(key, expected);
      numbers.push_back(finite(key, entry));
    }
    numbers.resize(3, numbers.front());
    return numbers;
  }

  Preprocess::Filter filter(const char* key) const {
    if (!has(key)) return Preprocess::Filter::kBilinear;
    std::vector<std::string_view> names;
    for (const auto& [filter, name] : kFilters) {
      if (at(key) == name) return filter;
      names.push_back(name);
    }
    fail(key, fmt::format("one of {}", fmt::join(names, ", ")));
  }

  [[noreturn]] void fail(const std::string& key, const std::string& expected, std::string_view what = "") const {
    const std::string found =
        what.empty() ? (has(key.c_str()) ? at(key.c_str()).dump() : "nothing") : std::string(what);
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: \"{}{}\": {} found; {} expected; see docs/reference/preprocess.md", file_,
                            prefix_, key, key.empty() ? object_.dump() : found, expected));
  }

 private:
  float finite(const char* key, const json& value) const {
    const auto number = static_cast<float>(value.get<double>());
    if (!std::isfinite(number)) fail(key, "a number within float32");
    return number;
  }

  const json& object_;
  std::string file_, prefix_;
};

void read_resize(const json& value, const std::string& file, Preprocess& recipe) {
  const Reader resize(value, file, "resize.", {"short_side", "width", "height", "filter", "fill"});
  recipe.short_side = resize.size("short_side", 0);
  recipe.width = resize.size("width", 0);
  recipe.height = resize.size("height", 0);
  recipe.filter = resize.filter("filter");
  recipe.fill = resize.byte("fill", -1);
  const bool both = recipe.width > 0 && recipe.height > 0, none = recipe.width == 0 && recipe.height == 0;
  const bool boxed = recipe.fill >= 0 && recipe.short_side == 0 && (both || none);
  if (!boxed && (recipe.fill >= 0 || (recipe.short_side > 0 ? !none : !both))) {
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: \"resize\": {} found; either short_side or width and height, the latter with "
                            "or without fill, expected; see docs/reference/preprocess.md",
                            file, value.dump()));
  }
}

Preprocess parse_preprocess(const std::string& text, const std::string& file) {
  json root;
  try {
    root = internal::parse_json(text);
  } catch (const json::exception& error) {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[data] {}: {}; a JSON object expected; see docs/reference/preprocess.md", file, error.what()));
  }
  const Reader reader(root, file, "", {"resize", "crop", "channel_order", "layout", "scale", "mean", "std"});
  Preprocess recipe;
  if (reader.has("resize")) read_resize(reader.at("resize"), file, recipe);
  recipe.crop = reader.size("crop", 0);
  if (recipe.crop > 0 && recipe.fill >= 0) reader.fail("crop", "none beside \"resize\" with \"fill\"");
  const size_t order = reader.choice("channel_order", {"rgb", "bgr", "grey"});
  recipe.bgr = order == 1;
  recipe.grey = order == 2;
  recipe.nhwc = reader.choice("layout", {"nchw", "nhwc"}) == 1;
  recipe.scale = reader.number("scale", recipe.scale);
  recipe.mean = reader.channels("mean", 0);
  recipe.std = reader.channels("std", 1);
  for (const float value : recipe.std) {
    if (value == 0) reader.fail("std", "numbers other than 0");
  }
  return recipe;
}

}  // namespace

Preprocess load_preprocess(const std::string& name_or_path) {
  if (name_or_path == "unit") return {};
  if (name_or_path == "none") return {.scale = 1};
  if (name_or_path == "yolo") return {.fill = 114};
  if (name_or_path == "imagenet") {
    return {.short_side = 256, .crop = 224, .mean = {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f}};
  }
  if (name_or_path.starts_with('{')) return parse_preprocess(name_or_path, "--preprocess");
  if (!std::filesystem::is_regular_file(name_or_path)) {
    throw Error(Code::kInvalidInput,
                fmt::format("[data] preprocessing \"{}\": neither a name nor a file; imagenet, yolo, "
                            "unit, none or a JSON file expected; see docs/reference/preprocess.md",
                            name_or_path));
  }
  return parse_preprocess(read_file(name_or_path), name_or_path);
}

namespace internal {

std::string preprocess_to_json(const Preprocess& recipe) {
  json root;
  const auto* filter = std::find_if(std::begin(kFilters), std::end(kFilters),
                                    [&](const FilterName& entry) { return entry.filter == recipe.filter; });
  if (recipe.short_side > 0) {
    root["resize"] = {{"short_side", recipe.short_side}, {"filter", filter->name}};
  } else if (recipe.width > 0) {
    root["resize"] = {{"width", recipe.width}, {"height", recipe.height}, {"filter", filter->name}};
  }
  if (recipe.fill >= 0) root["resize"]["fill"] = recipe.fill;
  if (recipe.crop > 0) root["crop"] = recipe.crop;
  root["channel_order"] = recipe.grey ? "grey" : recipe.bgr ? "bgr" : "rgb";
  root["layout"] = recipe.nhwc ? "nhwc" : "nchw";
  root["scale"] = recipe.scale;
  root["mean"] = recipe.mean;
  root["std"] = recipe.std;
  return root.dump();
}

std::array<std::vector<float>, 3> value_tables(const Preprocess& recipe) {
  std::array<std::vector<float>, 3> tables;
  for (size_t c = 0; c < 3; ++c) {
    for (int pixel = 0; pixel < 256; ++pixel) {
      const float scaled = static_cast<float>(pixel) * recipe.scale;
      tables[c].push_back((scaled - recipe.mean[c]) / recipe.std[c]);
    }
  }
  return tables;
}

}  // namespace internal
}  // namespace seqto
