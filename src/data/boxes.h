// Boxes of objects in images: COCO's JSON, and the text files and data sets of YOLO.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "seqto/dataset.h"

namespace seqto::internal {

struct CocoData {
  std::map<std::string, std::vector<Box>> boxes;  // by file name, as "images" has it
  int64_t classes = 0;                            // categories, which become indices in the order of their ids, from 0
};
// Throws Error{kInvalidInput} naming what is missing.
CocoData read_coco(const std::filesystem::path& file);

// What stands behind each box: so many keypoints, each of x, y and, with three values, whether it is labelled (0: not).
struct KeypointForm {
  int64_t count = 0, values = 2;
};

// A line for each object. Of five numbers: "class x y width height", the middle and the size as shares of the image.
// With keypoints they follow, or none. Without, of an odd number from seven on: the class and the corners of an
// outline, with the box around it; what follows a box otherwise is passed over. No file: no objects. Throws
// Error{kInvalidInput} naming the line.
std::vector<Box> read_yolo(const std::filesystem::path& file, const std::optional<KeypointForm>& keypoints = {});

// Data sets as YOLO's trainers describe them: a data.yaml that tells where the images are.
struct YoloData {
  std::filesystem::path root;                  // what "path" says
  std::vector<std::filesystem::path> folders;  // of images, below the root or beside it
  std::vector<std::filesystem::path> images;   // single ones, of lists
  std::optional<KeypointForm> keypoints;       // "kpt_shape"
  int64_t classes = 0;                         // how many "names" there are, else "nc"; 0: neither
};

bool is_yolo_data(const std::filesystem::path& path);  // a .yaml or .yml

// Of the part "val", else "test", else "train": folders, or .txt files that list images. "path" is looked for beside
// the file, where the program runs, and as the file's own folder; a "../" in front of a part that leads nowhere is
// passed over. Throws Error{kInvalidInput}: no such part, nothing found where it points, an image that is not there, a
// "kpt_shape" that is none.
YoloData read_yolo_data(const std::filesystem::path& file);

// The text file of an image: in its path the last folder `images` becomes `labels`; beside the image without one.
std::filesystem::path yolo_labels_of(const std::filesystem::path& image);
// The folders of these files that are there.
std::set<std::filesystem::path> yolo_label_folders(const YoloData& data);

}  // namespace seqto::internal
