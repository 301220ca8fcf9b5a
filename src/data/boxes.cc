#include "data/boxes.h"

#include <fmt/format.h>

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

std::vector<Box> read_yolo(const std::filesystem::path& folder, const std::string& image) {
  const std::filesystem::path file = folder / std::filesystem::path(image).filename().replace_extension(".txt");
  if (!std::filesystem::exists(file)) return {};
  std::vector<Box> boxes;
  std::istringstream lines(read_file(file));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::istringstream words(line);
    Box box;
    float x = 0, y = 0, width = 0, height = 0;
    if (!(words >> box.label >> x >> y >> width >> height) || box.label < 0)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[data] {}, line {}: \"{}\" found; \"class x y width height\" expected, the class from 0, "
                      "middle and size as shares of the image; correct the line",
                      file.string(), number, line));
    box.left = x - width / 2, box.right = x + width / 2;
    box.top = y - height / 2, box.bottom = y + height / 2;
    boxes.push_back(box);
  }
  return boxes;
}

}  // namespace seqto::internal
