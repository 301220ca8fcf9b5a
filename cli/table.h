// Tables on stdout: as wide as their cells; on a terminal that is narrower, long texts are cut.
#pragma once

#include <string>
#include <vector>

namespace seqto::cli {

struct TableColumn {
  std::string title;
  enum Kind { kName, kText, kFigure } kind = kText;  // names are cut at their beginning, figures never
};
using TableRow = std::vector<std::string>;  // a cell for each column

// The titles and each row. `columns`: the most that a line may have; 0: any.
std::vector<std::string> table_lines(const std::vector<TableColumn>& table, const std::vector<TableRow>& rows,
                                     int columns);

// For stdout: what the terminal has; where there is none nothing is cut.
int table_columns();

}  // namespace seqto::cli
