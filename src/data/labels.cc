#include "data/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
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

constexpr size_t kAbsent = std::numeric_limits<size_t>::max();

struct Columns {
  size_t file = kAbsent, label = kAbsent, transcript = kAbsent;
  std::vector<size_t> targets;
};

Columns find_columns(const Record& header, const std::string& path) {
  Columns columns;
  for (size_t i = header.fields.size(); i-- > 0;) {  // of two columns of a name the first
    const std::string& name = header.fields[i];
    if (name == "file") columns.file = i;
    if (name == "label") columns.label = i;
    if (name == "transcript") columns.transcript = i;
    if (name == "target" || name.starts_with("target_")) columns.targets.insert(columns.targets.begin(), i);
  }
  const auto fail = [&](const char* name) {
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: the columns {} found; file,label expected in the first line; add the column {}",
                            path, fmt::join(header.fields, ","), name));
  };
  if (columns.file == kAbsent) fail("file");
  if (columns.label == kAbsent && columns.transcript == kAbsent && columns.targets.empty()) fail("label");
  return columns;
}

std::string_view without_spaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

template <class Number>
bool parse_whole(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

bool is_label_table(const std::string& labels) {
  const std::string extension = std::filesystem::path(labels).extension().string();
  return !labels.empty() && extension != ".json" && extension != ".npz" && extension != ".npy" &&
         !std::filesystem::is_directory(labels);
}

std::vector<LabelRow> read_labels(const std::filesystem::path& path) {
  const std::string name = path.string();
  const std::vector<Record> records = parse_csv(read_file(path));
  if (records.size() < 2) {
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: no rows found; a line file,label and a row for each sample expected", name));
  }
  const Columns columns = find_columns(records[0], name);

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
    const auto field = [&](size_t column) {
      return column < record.fields.size() ? without_spaces(record.fields[column]) : std::string_view();
    };
    LabelRow row{.file = columns.file < record.fields.size() ? record.fields[columns.file] : "", .line = record.line};
    if (columns.label != kAbsent) {
      const std::string_view label = field(columns.label);
      if (columns.label >= record.fields.size()) fail("no label found");
      if (row.file.empty()) fail("no file found");
      if (label.empty()) fail(fmt::format("no label found for {}", row.file));
      if (!parse_whole(label, row.label) || row.label < -1) fail(fmt::format("the label \"{}\" found", label));
    }
    for (const size_t column : columns.targets) {
      const std::string_view target = field(column);
      if (row.file.empty()) fail("no file found");
      if (!parse_whole(target, row.target.emplace_back()) || !std::isfinite(row.target.back()))
        fail(fmt::format("the {} \"{}\", no number, found for {}", records[0].fields[column], target, row.file));
    }
    if (columns.transcript != kAbsent) {
      if (row.file.empty()) fail("no file found");
      row.transcript = std::string(field(columns.transcript));
    }
    const auto [first, is_new] = lines.emplace(row.file, row.line);
    if (!is_new) fail(fmt::format("{} found again, first on line {}", row.file, first->second));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace seqto::internal
