// Boxes of objects in images: COCO's JSON, and the text files of YOLO.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "seqto/dataset.h"

namespace seqto::internal {

// By file name, as "images" has it. Categories become class indices in the order of their ids, from 0.
// Throws Error{kInvalidInput} naming what is missing.
std::map<std::string, std::vector<Box>> read_coco(const std::filesystem::path& file);

// FOLDER/<stem of the image>.txt: a line "class x y width height" for each object, the middle and the size as shares of
// the image. No file: no objects. Throws Error{kInvalidInput} naming the line.
std::vector<Box> read_yolo(const std::filesystem::path& folder, const std::string& image);

}  // namespace seqto::internal
