#include "data/boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/files.h"
#include "base/text.h"
#include "base/yaml.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Description {
 public:
  explicit Description(const fs::path& file) : file_(file), yaml_(parse_yaml(read_file(file), file.string())) {
    if (!yaml_.is_object()) fail("no mapping found");
  }

  YoloData read() const {
    const auto [part, places] = used_part();
    YoloData data{.has_keypoints = yaml_.contains("kpt_shape")};
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
