#include "seqto/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "visualizer/format.h"

namespace seqto {
namespace {

using internal::screen_width;

constexpr int kReadable = 16, kShortest = 8;  // what cutting leaves of a text: at first, and at last
constexpr int kGap = 2;

bool can_be_cut(const TableColumn& column) {
  return column.kind != TableColumn::kFigure && column.kind != TableColumn::kVerdict;
}
bool stands_right(const TableColumn& column) {
  return column.kind == TableColumn::kFigure || column.kind == TableColumn::kValue;
}

// The last so many characters of UTF-8.
std::string last(const std::string& text, int count) {
  size_t i = text.size();
  while (i > 0 && count > 0)
    if ((text[--i] & 0xC0) != 0x80) --count;
  return text.substr(i);
}

std::string cut(const std::string& text, int width, TableColumn::Kind kind) {
  if (screen_width(text) <= width) return text;
  return kind == TableColumn::kName ? "…" + last(text, width - 1) : internal::clip(text, width - 1) + "…";
}

std::vector<int> widths_of(const std::vector<TableColumn>& columns, const std::vector<TableRow>& rows) {
  std::vector<int> widths;
  for (size_t i = 0; i < columns.size(); ++i) {
    widths.push_back(screen_width(columns[i].title));
    for (const TableRow& row : rows) widths[i] = std::max(widths[i], screen_width(row[i]));
  }
  return widths;
}

int total(const std::vector<int>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap * (static_cast<int>(widths.size()) - 1));
}

// Takes from the widest text until all fits, or none is wider than `least`.
void shrink(std::vector<int>& widths, const std::vector<TableColumn>& columns, int most, int least) {
  while (total(widths) > most) {
    int* widest = nullptr;
    for (size_t i = 0; i < columns.size(); ++i)
      if (can_be_cut(columns[i]) && widths[i] > least && (!widest || widths[i] > *widest)) widest = &widths[i];
    if (!widest) return;
    --*widest;
  }
}

void remove_column(std::vector<TableColumn>& columns, std::vector<TableRow>& rows, std::vector<int>& widths, size_t i) {
  const auto at = static_cast<std::ptrdiff_t>(i);
  columns.erase(columns.begin() + at);
  widths.erase(widths.begin() + at);
  for (TableRow& row : rows) row.erase(row.begin() + at);
}

std::vector<int> make_fit(std::vector<TableColumn>& columns, std::vector<TableRow>& rows, int most) {
  std::vector<int> widths = widths_of(columns, rows);
  if (most <= 0) return widths;
  shrink(widths, columns, most, kReadable);
  const auto order = [](const TableColumn& c) { return c.leaves; };
  const int all = columns.empty() ? 0 : order(*std::ranges::max_element(columns, {}, order));
  for (int leaving = 1; leaving <= all && total(widths) > most; ++leaving)
    for (size_t i = columns.size(); i-- > 0;)
      if (columns[i].leaves == leaving) remove_column(columns, rows, widths, i);
  shrink(widths, columns, most, kShortest);
  return widths;
}

struct Span {
  size_t begin, end;
  Colour colour;
};

}  // namespace

std::string painted(const std::string& text, Colour colour, const TextStyle& style) {
  if (!style.colours || text.empty()) return text;
  const char* code = colour == Colour::kGood ? "32" : colour == Colour::kBad ? "1;31" : "1;32";
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::vector<std::string> table_lines(std::vector<TableColumn> columns, std::vector<TableRow> rows,
                                     const TextStyle& style) {
  const std::vector<int> widths = make_fit(columns, rows, style.columns);
  const auto line = [&](const auto& cell_at) {
    std::string text;
    std::vector<Span> verdicts;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string cell = cut(cell_at(i), widths[i], columns[i].kind);
      const std::string padding(static_cast<size_t>(std::max(0, widths[i] - screen_width(cell))), ' ');
      if (i > 0) text.append(kGap, ' ');
      if (columns[i].kind == TableColumn::kVerdict && (cell == "ok" || cell == "FAILED"))
        verdicts.push_back({text.size(), text.size() + cell.size(), cell == "ok" ? Colour::kGood : Colour::kBad});
      text += stands_right(columns[i]) ? padding + cell : cell + padding;
    }
    if (style.columns > 0) text = internal::clip(text, style.columns);
    text.erase(text.find_last_not_of(' ') + 1);
    for (auto span = verdicts.rbegin(); span != verdicts.rend(); ++span)
      if (span->end <= text.size())
        text.replace(span->begin, span->end - span->begin,
                     painted(text.substr(span->begin, span->end - span->begin), span->colour, style));
    return text;
  };
  std::vector<std::string> lines{line([&](size_t i) { return columns[i].title; })};
  for (const TableRow& row : rows) lines.push_back(line([&](size_t i) { return row[i]; }));
  return lines;
}

}  // namespace seqto
