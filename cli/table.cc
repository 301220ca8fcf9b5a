#include "table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "terminal.h"

namespace seqto::cli {
namespace {

constexpr int kShortest = 8;  // what cutting leaves of a text
constexpr int kGap = 2;

int width_of(const std::string& text) {
  return static_cast<int>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// The first or last so many characters of UTF-8.
std::string first(const std::string& text, int count) {
  size_t i = 0;
  while (i < text.size() && ((text[i] & 0xC0) == 0x80 || count-- > 0)) ++i;
  return text.substr(0, i);
}
std::string last(const std::string& text, int count) {
  size_t i = text.size();
  while (i > 0 && count > 0)
    if ((text[--i] & 0xC0) != 0x80) --count;
  return text.substr(i);
}

std::string cut(const std::string& text, int width, TableColumn::Kind kind) {
  if (width_of(text) <= width) return text;
  return kind == TableColumn::kName ? "…" + last(text, width - 1) : first(text, width - 1) + "…";
}

std::vector<int> widths_of(const std::vector<TableColumn>& table, const std::vector<TableRow>& rows, int columns) {
  std::vector<int> widths;
  for (const TableColumn& column : table) widths.push_back(width_of(column.title));
  for (const TableRow& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  const auto total = [&] {
    return std::accumulate(widths.begin(), widths.end(), kGap * (static_cast<int>(widths.size()) - 1));
  };
  while (columns > 0 && total() > columns) {
    int* widest = nullptr;
    for (size_t i = 0; i < table.size(); ++i)
      if (table[i].kind != TableColumn::kFigure && widths[i] > kShortest && (!widest || widths[i] > *widest))
        widest = &widths[i];
    if (!widest) break;
    --*widest;
  }
  return widths;
}

}  // namespace

std::vector<std::string> table_lines(const std::vector<TableColumn>& table, const std::vector<TableRow>& rows,
                                     int columns) {
  const std::vector<int> widths = widths_of(table, rows, columns);
  const auto line = [&](const auto& cell_at) {
    std::string text;
    for (size_t i = 0; i < table.size(); ++i) {
      const std::string cell = cut(cell_at(i), widths[i], table[i].kind);
      const std::string padding(static_cast<size_t>(std::max(0, widths[i] - width_of(cell))), ' ');
      if (i > 0) text.append(kGap, ' ');
      text += table[i].kind == TableColumn::kFigure ? padding + cell : cell + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return columns > 0 ? first(text, columns) : text;
  };
  std::vector<std::string> lines{line([&](size_t i) { return table[i].title; })};
  for (const TableRow& row : rows) lines.push_back(line([&](size_t i) { return row[i]; }));
  return lines;
}

int table_columns() { return ::isatty(STDOUT_FILENO) ? columns_of(STDOUT_FILENO) : 0; }

}  // namespace seqto::cli
