// Labels from a CSV file with the columns file,label.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace seqto::internal {

struct LabelRow {
  std::string file;
  int64_t label = -1;
  int64_t line = 0;  // of the CSV file, from 1
};

// The rows in the file's order; other columns are passed over.
// Throws Error{kInvalidInput} naming the line: column missing, no label, label not a whole number, file named twice.
std::vector<LabelRow> read_labels(const std::filesystem::path& path);

}  // namespace seqto::internal
