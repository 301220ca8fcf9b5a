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

// What classes of transformers do with `size`, where that is one number or "shortest_edge".
struct ImageClass {
  std::string_view name;
  double crop_share = 1;       // of the picture that the crop leaves, where the file does not say it
  bool crops_to_size = false;  // instead of to "crop_size"
  int whole_from = 65536;      // sizes from which both sides get this many pixels, and nothing is cropped
};
constexpr ImageClass kShortSides[] = {{"Bit"},
                                      {"CLIP"},
                                      {"ConvNext", 224.0 / 256, true, 384},
                                      {"Levit", 224.0 / 256},
                                      {"MobileNetV1"},
                                      {"MobileNetV2"},
                                      {"MobileViT"},
                                      {"PoolFormer", 0.9}};

// A preprocessor_config.json of transformers, as its image processors read it. What would change pixels and is not a
// recipe of ours is an error; keys that say nothing of pixels are passed over.
class ImageProcessor {
 public:
  ImageProcessor(const json& root, std::string file) : root_(root), file_(std::move(file)) {
    for (const char* name : {"image_processor_type", "feature_extractor_type"})
      if (type_.empty() && root.contains(name) && root[name].is_string()) type_ = root[name].get<std::string>();
    for (const std::string_view suffix : {"Fast", "ImageProcessor", "FeatureExtractor"})
      if (type_.ends_with(suffix)) type_.resize(type_.size() - suffix.size());
    const auto known = std::ranges::find(kShortSides, type_, &ImageClass::name);
    if (known != std::end(kShortSides)) class_ = *known;
  }

  Preprocess recipe() const {
    require_known_steps();
    Preprocess recipe;
    if (is_set("do_resize", true)) set_size(recipe);
    const bool may_crop = is_set("do_resize", true) && has_short_side() && !class_.crops_to_size;
    if (may_crop && !root_.contains("do_center_crop")) fail("do_center_crop");  // classes differ where it is not there
    if (is_set("do_center_crop", false)) recipe.crop = crop();
    recipe.scale = is_set("do_rescale", true) ? static_cast<float>(number("rescale_factor", 1.0 / 255)) : 1.0f;
    recipe.bgr = is_set("do_flip_channel_order", false);
    if (is_set("do_normalize", root_.contains("image_mean"))) {
      recipe.mean = channels("image_mean");
      recipe.std = channels("image_std");
    }
    return recipe;
  }

 private:
  [[noreturn]] void fail(const std::string& key) const {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[data] {}: \"{}\": {} found; an image processor that resizes to one shape, crops, rescales "
                    "and normalizes expected; write the steps as docs/reference/preprocess.md says",
                    file_, key, root_.contains(key) ? root_[key].dump() : "nothing"));
  }

  void require_known_steps() const {
    constexpr std::string_view kDone[] = {"do_resize",        "do_center_crop",        "do_rescale",
                                          "do_normalize",     "do_convert_rgb",        "do_flip_channel_order",
                                          "do_reduce_labels", "do_convert_annotations"};
    for (const auto& [key, value] : root_.items()) {
      const bool asks = value.is_boolean() && value.get<bool>();
      const bool step = key.starts_with("do_") || key == "keep_aspect_ratio" || key == "rescale_offset" ||
                        key == "include_top";  // the last two: EfficientNet's second shift and scale
      if (asks && step && std::ranges::find(kDone, key) == std::end(kDone)) fail(key);
    }
  }

  bool is_set(const char* key, bool otherwise) const {
    return root_.contains(key) && root_[key].is_boolean() ? root_[key].get<bool>() : otherwise;
  }

  double number(const char* key, double otherwise) const {
    if (!root_.contains(key)) return otherwise;
    if (!root_[key].is_number() || !std::isfinite(root_[key].get<float>())) fail(key);
    return root_[key].get<double>();
  }

  std::vector<float> channels(const char* key) const {
    if (!root_.contains(key) || !root_[key].is_array() || (root_[key].size() != 3 && root_[key].size() != 1)) fail(key);
    std::vector<float> result;
    for (const json& value : root_[key]) {
      if (!value.is_number() || !std::isfinite(value.get<float>())) fail(key);
      result.push_back(value.get<float>());
    }
    result.resize(3, result.front());
    if (std::string_view(key) == "image_std" && std::ranges::count(result, 0.0f) > 0) fail(key);
    return result;
  }

  // Pixels that `key` gives, itself or in its field.
  int pixels(const char* key, const char* field = nullptr) const {
    const json* value = root_.contains(key) ? &root_[key] : nullptr;
    if (value && field) value = value->contains(field) ? &(*value)[field] : nullptr;
    if (!value || !value->is_number_integer() || *value < 1 || *value > 65535) fail(key);
    return value->get<int>();
  }

  int crop() const {
    if (!root_.contains("crop_size")) return short_side();
    if (!root_["crop_size"].is_object()) return pixels("crop_size");
    const int width = pixels("crop_size", "width"), height = pixels("crop_size", "height");
    if (width != height) fail("crop_size");
    return width;
  }

  bool has_short_side() const {
    if (!root_.contains("size")) fail("size");
    const json& size = root_["size"];
    return size.is_object() ? size.contains("shortest_edge") : !class_.name.empty();
  }
  int short_side() const { return root_["size"].is_object() ? pixels("size", "shortest_edge") : pixels("size"); }

  void set_size(Preprocess& recipe) const {
    // Pillow's numbers of its filters.
    constexpr Preprocess::Filter kPillow[] = {Preprocess::Filter::kNearest, Preprocess::Filter::kLanczos,
                                              Preprocess::Filter::kBilinear, Preprocess::Filter::kBicubic,
                                              Preprocess::Filter::kBox};
    if (!root_.contains("resample")) fail("resample");  // each class has its own default
    const double filter = number("resample", 0);
    if (filter < 0 || filter >= std::size(kPillow)) fail("resample");
    recipe.filter = kPillow[static_cast<size_t>(filter)];
    if (!has_short_side()) {
      const bool object = root_["size"].is_object();
      recipe.width = object ? pixels("size", "width") : pixels("size");
      recipe.height = object ? pixels("size", "height") : pixels("size");
    } else if (root_["size"].is_object() && root_["size"].contains("longest_edge")) {
      fail("size");
    } else if (short_side() >= class_.whole_from) {
      recipe.width = recipe.height = short_side();
    } else {
      const double share = number("crop_pct", class_.crop_share);
      if (!(share > 0 && share <= 1)) fail("crop_pct");
      recipe.short_side = static_cast<int>(short_side() / share);
      recipe.truncates = true;
      if (class_.crops_to_size) recipe.crop = short_side();
    }
  }

  const json& root_;
  std::string file_, type_;  // "ViT", "CLIP" ...
  ImageClass class_;         // without a name: of those that give one number to both sides
};

bool is_image_processor(const json& root) {
  return root.is_object() && (root.contains("image_processor_type") || root.contains("feature_extractor_type") ||
                              root.contains("do_resize"));
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
  if (is_image_processor(root)) return ImageProcessor(root, file).recipe();
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
