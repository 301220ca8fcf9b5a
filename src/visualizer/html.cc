#include "visualizer/html.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

#include "base/base64.h"
#include "base/hash.h"
#include "visualizer/assets.h"
#include "visualizer/echarts_js.h"
#include "visualizer/format.h"

namespace seqto::internal {

std::string text(std::string_view raw) { return escape_html(raw); }

std::string sort_head(const std::string& name, bool more) {
  std::string shown = text(name);
  for (size_t at = 0; (at = shown.find('_', at)) != std::string::npos; ++at) shown.insert(at + 1, "<wbr>");
  return fmt::format("<th scope=\"col\"{}><button>{}</button></th>", more ? " class=\"more\"" : "", shown);
}

std::string heads(const std::vector<std::string>& names) {
  std::string row;
  for (const auto& name : names) row += sort_head(name);
  return "<thead><tr>" + row + "</tr></thead>";
}

std::string empty_cell() { return "<td data-value=\"\">–</td>"; }

std::string cell(double value, const std::string& shown) {
  if (std::isnan(value)) return empty_cell();
  const std::string number = !std::isinf(value) ? fmt::to_string(value) : value > 0 ? "Infinity" : "-Infinity";
  return fmt::format("<td data-value=\"{}\">{}</td>", number, shown);
}

namespace {

std::string in_script(std::string_view code) { return "\n" + std::string(code) + "\n"; }

// Of our own scripts: a browser runs no other, wherever it stands in the page.
std::string hashes_of_scripts() {
  std::string hashes;
  for (const std::string_view code :
       {echarts_js(), plots_js(), page_js(), layer_view_js(), dagre_js(), graph_view_js(), what_if_js()}) {
    const std::string digits = sha256_hex(in_script(code));
    std::vector<std::byte> bytes;
    for (size_t i = 0; i < digits.size(); i += 2)
      bytes.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    hashes += fmt::format(" 'sha256-{}'", base64(bytes));
  }
  return hashes;
}

}  // namespace

std::string script(std::string_view code) { return "<script>" + in_script(code) + "</script>\n"; }

std::string page_head(const std::string& title) {
  static const std::string kScripts = hashes_of_scripts();
  return fmt::format(
             "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src{}; style-src "
             "'unsafe-inline'; img-src data:\">\n<title>{}</title>\n<style>\n",
             kScripts, text(title)) +
         std::string(report_css()) + "</style>\n</head>\n<body>\n<main>\n";
}

std::string colours_switch() {
  return "<p class=\"switch\" hidden><label for=\"colours\">Colours</label> <select id=\"colours\"><option "
         "value=\"\">as "
         "the system</option><option value=\"light\">light</option><option "
         "value=\"dark\">dark</option></select></p>\n";
}

std::string plot_section(const std::string& id, const std::string& heading, const std::string& hint,
                         const std::string& below) {
  const bool scaled = id == "front" || id == "fronts";
  return fmt::format(
      "<section>{3}<h2>{1}</h2>\n<p class=\"hint\">{2}</p>\n<div class=\"plot\" id=\"{0}\" role=\"img\" "
      "aria-label=\"{1}: a plot; its figures are in the tables of this page\"></div>\n<noscript><p>Without scripts, "
      "see <a href=\"plots/{0}.svg\">plots/{0}.svg</a>.</p>"
      "</noscript>{4}</section>\n",
      id, heading, hint, scaled ? "<label class=\"switch\"><input type=\"checkbox\" id=\"log\"> log scale</label>" : "",
      below);
}

bool measured(const SummaryPoint* point) { return point && point->trial.measurement.has_value(); }

}  // namespace seqto::internal
