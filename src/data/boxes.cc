#include "data/boxes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <sstream>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/yaml.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct CocoImage {
  std::string file;
  double width = 0, height = 0;
};

std::map<int64_t, CocoImage> images_of(const Json& coco, const std::string& name) {
  std::map<int64_t, CocoImage> images;
  for (const Json& image : coco.at("images")) {
    CocoImage& known = images[image.at("id").get<int64_t>()];
    known = {image.at("file_name"), image.at("width"), image.at("height")};
    if (known.width <= 0 || known.height <= 0)
      throw Error(Code::kInvalidInput, fmt::format("[data] {}: the image {} of {} x {} pixels found; sizes above 0 "
                                                   "expected, which the boxes are given in; correct it",
                                                   name, known.file, known.width, known.height));
  }
  return images;
}

// The place of each category among all of them: what detectors number from 0 has gaps in COCO's own ids.
std::map<int64_t, int64_t> classes_of(const Json& coco) {
  std::set<int64_t> ids;
  for (const Json& category : coco.at("categories")) ids.insert(category.at("id").get<int64_t>());
  std::map<int64_t, int64_t> classes;
  for (const int64_t id : ids) classes.emplace(id, static_cast<int64_t>(classes.size()));
  return classes;
}

// "keypoints": x, y and visibility of each, in pixels.
Pose pose_of(const Json& annotation, const CocoImage& image) {
  Pose pose{.area = static_cast<float>(annotation.value("area", 0.0) / (image.width * image.height)),
            .aspect = static_cast<float>(image.width / image.height)};
  if (!annotation.contains("keypoints")) return pose;
  const Json& values = annotation["keypoints"];
  for (size_t i = 0; i + 2 < values.size(); i += 3)
    pose.points.push_back({static_cast<float>(values.at(i).get<double>() / image.width),
                           static_cast<float>(values.at(i + 1).get<double>() / image.height),
                           values.at(i + 2).get<double>() > 0});
  return pose;
}

// "segmentation": polygons of x and y in pixels. Run lengths, as crowds have them, are passed over.
std::vector<Outline> outlines_of(const Json& annotation, const CocoImage& image) {
  std::vector<Outline> outlines;
  if (!annotation.contains("segmentation") || !annotation["segmentation"].is_array()) return outlines;
  for (const Json& part : annotation["segmentation"]) {
    Outline outline;
    for (size_t i = 0; i + 1 < part.size(); i += 2)
      outline.push_back({static_cast<float>(part.at(i).get<double>() / image.width),
                         static_cast<float>(part.at(i + 1).get<double>() / image.height)});
    if (outline.size() > 2) outlines.push_back(std::move(outline));
  }
  return outlines;
}

// Of the values of a line, behind the box.
std::vector<Keypoint> keypoints_of(std::span<const float> values, const KeypointForm& form) {
  std::vector<Keypoint> points;
  for (size_t i = 0; i + 1 < values.size(); i += static_cast<size_t>(form.values)) {
    const bool labelled = form.values == 3 ? values[i + 2] > 0 : values[i] >= 0 && values[i + 1] >= 0;
    points.push_back({values[i], values[i + 1], labelled});
  }
  return points;
}

// Rounding, and what is cut off at an image's edge, may lead a little beyond it.
void require_shares(std::span<const float> values, const fs::path& file, int64_t line) {
  constexpr float kLargest = 1.1f;
  const auto beyond = std::ranges::find_if(values, [](float value) { return !(value <= kLargest); });
  if (beyond == values.end()) return;
  throw Error(
      Code::kInvalidInput,
      fmt::format("[data] {}, line {}: {} found behind the class; places and sizes as shares of the image, from 0 "
                  "to 1, expected, not pixels; divide them by its width and height",
                  file.string(), line, *beyond));
}

class Description {
 public:
  explicit Description(const fs::path& file) : file_(file), yaml_(parse_yaml(read_file(file), file.string())) {
    if (!yaml_.is_object()) fail("no mapping found");
  }

  YoloData read() const {
    const auto [part, places] = used_part();
    YoloData data{.keypoints = keypoints(), .classes = classes()};
    data.root = root_of(places);
    for (const std::string& place : places) {
      const fs::path found = find(data.root, place);
      if (fs::is_directory(found)) {
        data.folders.push_back(found);
      } else if (lower(found.extension().string()) == ".txt") {
        add_listed(found, data.images);
      } else {
        fail(fmt::format("\"{}\": {} found, under {}", part, found.empty() ? "nothing" : found.string(),
                         (data.root / place).string()));
      }
    }
    return data;
  }

 private:
  [[noreturn]] void fail(const std::string& found) const {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[data] {}: {}; \"val\", or \"test\" or \"train\", with folders of images or .txt files that "
                    "list images expected, below the folder that \"path\" says; correct it",
                    file_.string(), found));
  }

  std::optional<KeypointForm> keypoints() const {
    if (!yaml_.contains("kpt_shape")) return {};
    const std::vector<std::string> shape = texts_of("kpt_shape");
    KeypointForm form{0, 0};
    if (shape.size() == 2) {
      std::from_chars(shape[0].data(), shape[0].data() + shape[0].size(), form.count);
      std::from_chars(shape[1].data(), shape[1].data() + shape[1].size(), form.values);
    }
    if (form.count < 1 || form.count > 1000 || form.values < 2 || form.values > 3)
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] {}: \"kpt_shape\": [{}] found; how many keypoints, and 2 or 3 values for each, "
                              "expected, as in [17, 3]; correct it",
                              file_.string(), fmt::join(shape, ", ")));
    return form;
  }

  int64_t classes() const {
    const Json names = yaml_.value("names", Json()), count = yaml_.value("nc", Json());
    if (names.is_structured()) return std::ssize(names);
    int64_t classes = 0;
    if (count.is_string()) classes = std::strtoll(count.get_ref<const std::string&>().c_str(), nullptr, 10);
    return std::max<int64_t>(0, classes);
  }

  std::vector<std::string> texts_of(const std::string& key) const {
    const Json& value = yaml_.at(key);
    std::vector<std::string> texts;
    for (const Json& text : value.is_array() ? value : Json::array({value}))
      if (text.is_string() && text != "" && text != "null" && text != "~") texts.push_back(text);
    return texts;
  }

  std::pair<std::string, std::vector<std::string>> used_part() const {
    for (const char* part : {"val", "test", "train"}) {
      if (!yaml_.contains(part)) continue;
      std::vector<std::string> places = texts_of(part);
      if (!places.empty()) return {part, std::move(places)};
    }
    fail("none of them found");
  }

  // Where it is below the root; empty: nowhere.
  static fs::path find(const fs::path& root, const std::string& place) {
    for (const std::string& written : {place, place.starts_with("../") ? place.substr(3) : place}) {
      const fs::path path = (root / written).lexically_normal();
      std::error_code error;
      if (fs::exists(path, error)) return path;
    }
    return {};
  }

  fs::path root_of(const std::vector<std::string>& places) const {
    const fs::path own = file_.has_parent_path() ? file_.parent_path() : ".";
    std::vector<fs::path> roots{own};
    if (yaml_.contains("path"))
      for (const std::string& path : texts_of("path")) roots = {own / path, path, own};
    const auto has_all = [&](const fs::path& root) {
      return std::ranges::none_of(places, [&](const std::string& place) { return find(root, place).empty(); });
    };
    const auto found = std::ranges::find_if(roots, has_all);
    return found == roots.end() ? roots[0] : *found;
  }

  // A line an image; "./" is the list's own folder, and so is what is below no other.
  void add_listed(const fs::path& list, std::vector<fs::path>& images) const {
    std::istringstream lines(read_file(list));
    int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (line.empty()) continue;
      const fs::path image = (list.parent_path() / line).lexically_normal();
      std::error_code error;
      if (!fs::is_regular_file(image, error))
        throw Error(
            Code::kInvalidInput,
            fmt::format("[data] {}, line {}: {} is not there; an image for each line expected, its path as seen "
                        "from the list; correct the line",
                        list.string(), number, image.string()));
      images.push_back(image);
    }
    if (images.empty()) fail(fmt::format("no image in {} found", list.string()));
  }

  const fs::path& file_;
  Json yaml_;
};

}  // namespace

CocoData read_coco(const std::filesystem::path& file) {
  const std::string name = file.string();
  try {
    const Json coco = parse_json(read_file(file));
    const std::map<int64_t, CocoImage> images = images_of(coco, name);
    const std::map<int64_t, int64_t> classes = classes_of(coco);
    CocoData data{.classes = std::ssize(classes)};
    for (const auto& [id, image] : images) data.boxes[image.file];
    for (const Json& annotation : coco.at("annotations")) {
      const int64_t id = annotation.at("image_id"), category = annotation.at("category_id");
      const auto image = images.find(id);
      const auto label = classes.find(category);
      if (image == images.end() || label == classes.end())
        throw Error(Code::kInvalidInput,
                    fmt::format("[data] {}: an annotation of image {} and category {} found; ids that images and "
                                "categories list expected; correct it",
                                name, id, category));
      const auto [file_name, width, height] = image->second;
      const Json& box = annotation.at("bbox");  // left, top, width, height in pixels
      const double left = box.at(0), top = box.at(1), right = left + box.at(2).get<double>(),
                   bottom = top + box.at(3).get<double>();
      data.boxes[file_name].push_back(
          {static_cast<float>(left / width), static_cast<float>(top / height), static_cast<float>(right / width),
           static_cast<float>(bottom / height), label->second, annotation.value("iscrowd", 0) != 0,
           pose_of(annotation, image->second), category, outlines_of(annotation, image->second)});
    }
    return data;
  } catch (const Json::exception& error) {
    throw Error(Code::kInvalidInput, fmt::format("[data] {}: {}; COCO's form expected: images, categories and "
                                                 "annotations with bbox; correct it",
                                                 name, error.what()));
  }
}

namespace {

// Also "0.0", as numpy writes it.
bool read_class(const std::string& word, int64_t& label) {
  double value = -1;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= 0 && value < 1e9) || value != std::floor(value)) return false;
  label = static_cast<int64_t>(value);
  return true;
}

}  // namespace

std::vector<Box> read_yolo(const std::filesystem::path& file, const std::optional<KeypointForm>& keypoints) {
  if (!std::filesystem::exists(file)) return {};
  std::vector<Box> boxes;
  std::istringstream lines(read_file(file));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::istringstream words(line);
    Box box;
    std::vector<float> values;
    std::string label;
    words >> label;
    for (float value = 0; words >> value;) values.push_back(value);
    const bool is_class = read_class(label, box.label);
    if (!words.eof() || !is_class || values.size() < 4)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[data] {}, line {}: \"{}\" found; \"class x y width height\" or \"class x1 y1 x2 y2 x3 y3 ...\" "
                      "expected, the class from 0, places and sizes as shares of the image; correct the line",
                      file.string(), number, line));
    if (keypoints && std::ssize(values) != 4 && std::ssize(values) != 4 + keypoints->count * keypoints->values)
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] {}, line {}: {} values behind the class found; 4 of the box and {} x {} of the "
                              "keypoints expected, as \"kpt_shape\" says; correct the line",
                              file.string(), number, values.size(), keypoints->count, keypoints->values));
    const bool outline = !keypoints && values.size() >= 6 && values.size() % 2 == 0;
    require_shares(std::span(values).first(outline ? values.size() : 4), file, number);
    if (outline) {
      Outline corners;
      box.left = box.right = values[0], box.top = box.bottom = values[1];
      for (size_t i = 0; i < values.size(); i += 2) {
        corners.push_back({values[i], values[i + 1]});
        box.left = std::min(box.left, values[i]), box.right = std::max(box.right, values[i]);
        box.top = std::min(box.top, values[i + 1]), box.bottom = std::max(box.bottom, values[i + 1]);
      }
      box.outlines = {std::move(corners)};
    } else {
      box.left = values[0] - values[2] / 2, box.right = values[0] + values[2] / 2;
      box.top = values[1] - values[3] / 2, box.bottom = values[1] + values[3] / 2;
      if (keypoints) box.pose.points = keypoints_of(std::span(values).subspan(4), *keypoints);
    }
    boxes.push_back(box);
  }
  return boxes;
}

bool is_yolo_data(const fs::path& path) {
  const std::string extension = lower(path.extension().string());
  return extension == ".yaml" || extension == ".yml";
}

YoloData read_yolo_data(const fs::path& file) { return Description(file).read(); }

fs::path yolo_labels_of(const fs::path& image) {
  fs::path labels = image;
  labels.replace_extension(".txt");
  std::vector<fs::path> parts(labels.begin(), labels.end());
  const auto last = std::find(parts.rbegin(), parts.rend(), "images");
  if (last == parts.rend()) return labels;
  *last = "labels";
  fs::path result;
  for (const fs::path& part : parts) result /= part;
  return result;
}

std::set<fs::path> yolo_label_folders(const YoloData& data) {
  std::set<fs::path> folders;
  const auto add = [&](const fs::path& image) {
    const fs::path folder = yolo_labels_of(image).parent_path();
    std::error_code error;
    if (fs::is_directory(folder, error)) folders.insert(folder);
  };
  for (const fs::path& folder : data.folders) add(folder / "any");
  for (const fs::path& image : data.images) add(image);
  return folders;
}

}  // namespace seqto::internal
