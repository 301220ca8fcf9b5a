// Room: visualizer. Tables of text: as wide as their cells, or made to fit a terminal.
#pragma once

#include <string>
#include <vector>

namespace seqto {

// Where text goes to. A file or another program: the default.
struct TextStyle {
  int columns = 0;       // the most that a line of a table may have; 0: any
  bool colours = false;  // escape sequences, for a terminal
};

enum class Colour { kGood, kBad, kChosen };
// As it is without colours.
std::string painted(const std::string& text, Colour colour, const TextStyle& style);

struct TableColumn {
  std::string title;
  // Names are cut at their beginning, texts at their end; figures stand to the right and are never cut, values stand
  // there and are. Verdicts are never cut; "ok" is good and "FAILED" bad.
  enum Kind { kName, kText, kFigure, kValue, kVerdict } kind = kText;
  int leaves = 0;  // where there is no room columns go, 1 first; 0: never
};
using TableRow = std::vector<std::string>;  // a cell for each column

// The titles and each row, without line ends. Where `style.columns` are too few long texts are cut, then columns leave,
// then texts are cut to a few letters, at last lines.
std::vector<std::string> table_lines(std::vector<TableColumn> columns, std::vector<TableRow> rows,
                                     const TextStyle& style = {});
// What the table takes as it is.
int table_width(const std::vector<TableColumn>& columns, const std::vector<TableRow>& rows);

}  // namespace seqto
