#include "layer_table.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "terminal.h"

namespace seqto::cli {

void print_layers(const std::vector<LayerReport>& layers) {
  std::map<std::string, int64_t> counts;
  std::vector<TableRow> rows;
  for (const LayerReport& l : layers) {
    rows.push_back({l.name, l.op_type, l.scheme, l.reason});
    ++counts[l.scheme];
  }
  const std::vector<TableColumn> table{{"layer", TableColumn::kName}, {"op"}, {"scheme"}, {"reason"}};
  for (const auto& line : table_lines(table, rows, stdout_style())) fmt::print("{}\n", line);
  fmt::print("\n{} layers:", layers.size());
  for (const auto& [scheme, count] : counts) fmt::print(" {} {}", count, scheme);
  fmt::print("\n");
}

nlohmann::ordered_json layers_json(const std::vector<LayerReport>& layers) {
  auto list = nlohmann::ordered_json::array();
  for (const LayerReport& l : layers)
    list.push_back({{"name", l.name}, {"op_type", l.op_type}, {"scheme", l.scheme}, {"reason", l.reason}});
  return list;
}

}  // namespace seqto::cli
