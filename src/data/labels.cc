// Labels from a CSV file with the columns file,label.
#include "data/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "base/files.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

struct Record {
  std::vector<std::string> fields;
  int64_t line = 0;
};

// RFC 4180: fields in double quotes may hold commas, line ends and doubled quotes. Empty lines are no records.
std::vector<Record> parse_csv(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // spreadsheets begin so
  std::vector<Record> records;
  Record record{{""}, 1};
  int64_t line = 1;
  bool quoted = false;
  const auto end_record = [&] {
    if (record.fields.size() > 1 || !record.fields[0].empty()) records.push_back(std::move(record));
    record = {{""}, line};
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (quoted) {
      if (c != '"') record.fields.back() += c;
      else if (i + 1 < text.size() && text[i + 1] == '"') record.fields.back() += text[++i];
      else quoted = false;
    } else if (c == '"' && record.fields.back().empty()) {
      quoted = true;
    } else if (c == ',') {
      record.fields.emplace_back();
    } else if (c == '\n') {
      end_record();
    } else if (c != '\r' || (i + 1 < text.size() && text[i + 1] != '\n')) {
      record.fields.back() += c;
    }
  }
  end_record();
  return records;
}

size_t column(const Record& header, std::string_view name, const std::string& path) {
  const auto found = std::find(header.fields.begin(), header.fields.end(), name);
  if (found != header.fields.end()) return found - header.fields.begin();
  throw Error(Code::kInvalidInput,
              fmt::format("[data] {}: the columns {} found; file,label expected in the first line; add the column {}",
                          path, fmt::join(header.fields, ","), name));
}

}  // namespace

std::vector<LabelRow> read_labels(const std::filesystem::path& path) {
  const std::string name = path.string();
  const std::vector<Record> records = parse_csv(read_file(path));
  if (records.size() < 2) {
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: no rows found; a line file,label and a row for each sample expected", name));
  }
  const size_t file_column = column(records[0], "file", name), label_column = column(records[0], "label", name);

  std::vector<LabelRow> rows;
  std::map<std::string, int64_t> lines;
  for (size_t i = 1; i < records.size(); ++i) {
    const Record& record = records[i];
    const auto fail = [&](const std::string& found) {
      throw Error(
          Code::kInvalidInput,
          fmt::format("[data] {}, line {}: {}; a file and its label, a whole number from 0, expected; correct the line",
                      name, record.line, found));
    };
    if (record.fields.size() <= std::max(file_column, label_column)) fail("no label found");
    LabelRow row{record.fields[file_column], -1, record.line};
    std::string_view label = record.fields[label_column];
    while (label.starts_with(' ')) label.remove_prefix(1);
    while (label.ends_with(' ')) label.remove_suffix(1);
    const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), row.label);
    if (row.file.empty()) fail("no file found");
    if (label.empty()) fail(fmt::format("no label found for {}", row.file));
    if (error != std::errc() || end != label.data() + label.size() || row.label < -1) {
      fail(fmt::format("the label \"{}\" found", label));
    }
    const auto [first, is_new] = lines.emplace(row.file, row.line);
    if (!is_new) fail(fmt::format("{} found again, first on line {}", row.file, first->second));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace seqto::internal
