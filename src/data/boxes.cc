#include "data/boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/files.h"
#include "base/json.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

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

}  // namespace

std::map<std::string, std::vector<Box>> read_coco(const std::filesystem::path& file) {
  const std::string name = file.string();
  try {
    const Json coco = parse_json(read_file(file));
    const std::map<int64_t, CocoImage> images = images_of(coco, name);
    const std::map<int64_t, int64_t> classes = classes_of(coco);
    std::map<std::string, std::vector<Box>> boxes;
    for (const auto& [id, image] : images) boxes[image.file];
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
      boxes[file_name].push_back({static_cast<float>(left / width), static_cast<float>(top / height),
                                  static_cast<float>(right / width), static_cast<float>(bottom / height), label->second,
                                  annotation.value("iscrowd", 0) != 0});
    }
    return boxes;
  } catch (const Json::exception& error) {
    throw Error(Code::kInvalidInput, fmt::format("[data] {}: {}; COCO's form expected: images, categories and "
                                                 "annotations with bbox; correct it",
                                                 name, error.what()));
  }
}

std::vector<Box> read_yolo(const std::filesystem::path& file, bool has_keypoints) {
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
    words >> box.label;
    for (float value = 0; words >> value;) values.push_back(value);
    if (!words.eof() || values.size() < 4 || box.label < 0)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[data] {}, line {}: \"{}\" found; \"class x y width height\" or \"class x1 y1 x2 y2 x3 y3 ...\" "
                      "expected, the class from 0, places and sizes as shares of the image; correct the line",
                      file.string(), number, line));
    const bool outline = !has_keypoints && values.size() >= 6 && values.size() % 2 == 0;
    if (outline) {
      box.left = box.right = values[0], box.top = box.bottom = values[1];
      for (size_t i = 2; i < values.size(); i += 2) {
        box.left = std::min(box.left, values[i]), box.right = std::max(box.right, values[i]);
        box.top = std::min(box.top, values[i + 1]), box.bottom = std::max(box.bottom, values[i + 1]);
      }
    } else {
      box.left = values[0] - values[2] / 2, box.right = values[0] + values[2] / 2;
      box.top = values[1] - values[3] / 2, box.bottom = values[1] + values[3] / 2;
    }
    boxes.push_back(box);
  }
  return boxes;
}

}  // namespace seqto::internal
