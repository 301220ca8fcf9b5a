#include "layer_table.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace seqto::cli {

void print_layers(const std::vector<LayerReport>& layers) {
  std::map<std::string, int64_t> counts;
  fmt::print("{:40} {:22} {:14} {}\n", "layer", "op", "scheme", "reason");
  for (const LayerReport& l : layers) {
    fmt::print("{:40} {:22} {:14} {}\n", l.name, l.op_type, l.scheme, l.reason);
    ++counts[l.scheme];
  }
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
