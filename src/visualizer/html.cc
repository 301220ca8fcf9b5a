#include "visualizer/html.h"

#include <fmt/format.h>

#include <cmath>

#include "visualizer/format.h"

namespace seqto::internal {

std::string text(std::string_view raw) { return escape_html(raw); }

std::string heads(const std::vector<std::string>& names) {
  std::string row;
  for (const auto& name : names) {
    auto shown = text(name);
    for (size_t at = 0; (at = shown.find('_', at)) != std::string::npos; ++at) shown.insert(at + 1, "<wbr>");
    row += fmt::format("<th scope=\"col\"><button>{}</button></th>", shown);
  }
  return "<thead><tr>" + row + "</tr></thead>";
}

std::string empty_cell() { return "<td data-value=\"\">–</td>"; }

std::string cell(double value, const std::string& shown) {
  return std::isnan(value) ? empty_cell() : fmt::format("<td data-value=\"{}\">{}</td>", value, shown);
}

std::string script(std::string_view code) { return "<script>\n" + std::string(code) + "\n</script>\n"; }

bool measured(const SummaryPoint* point) { return point && point->trial.measurement.has_value(); }

}  // namespace seqto::internal
