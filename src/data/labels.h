// Labels, targets and transcripts from a CSV file with the columns file,label or file,target or file,transcript.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace seqto::internal {

struct LabelRow {
  std::string file;
  int64_t label = -1;         // -1 where there is no such column
  int64_t line = 0;           // of the CSV file, from 1
  std::vector<float> target;  // of the columns target, target_x ..., in their order
  std::optional<std::string> transcript;
};

// Whether `labels`, the option, is such a file: neither arrays nor boxes.
bool is_label_table(const std::string& labels);

// The rows in the file's order; other columns are passed over.
// Throws Error{kInvalidInput} naming the line: column missing, no label, label not a whole number, target not a number,
// file named twice.
std::vector<LabelRow> read_labels(const std::filesystem::path& path);

}  // namespace seqto::internal
