#include "base/json.h"
#include "seqto/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/text.h"
#include "metrics/loss/loss_fields.h"
#include "visualizer/assets.h"
#include "visualizer/format.h"
#include "visualizer/points.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;
using namespace internal;

struct Cell {
  std::string text;
  std::string value;  // by which the page sorts; empty: as the text
};

const std::vector<std::string>& headings() {
  static const std::vector<std::string> names{"model", "float",       "int8",       "selected", "kept",
                                              "loss",  "int8's loss", "float time", "its time", "trials"};
  return names;
}

Cell size_cell(const SummaryPoint* point) {
  if (!point || !point->trial.measurement) return {"-", ""};
  int64_t bytes = point->trial.measurement->size_bytes;
  return {format_bytes(bytes), std::to_string(bytes)};
}

Cell loss_cell(const SummaryPoint* point, const std::string& loss, bool named) {
  if (!point || !point->trial.measurement) return {"-", ""};
  double value = loss_of(*point, loss);
  return {(named ? loss_label(loss) + " " : "") + format_figure(value), fmt::to_string(value)};
}

Cell latency_cell(const SummaryPoint* point) {
  if (!point || !point->trial.measurement || point->trial.measurement->latency.median_ns == 0) return {"-", ""};
  int64_t ns = point->trial.measurement->latency.median_ns;
  return {format_duration(ns), std::to_string(ns)};
}

Cell kept_cell(const Summary& summary, const SummaryPoint* point) {
  if (!point || !tells_kept(summary)) return {"-", ""};
  return {format_percent(point->size_reduction_kept), fmt::to_string(point->size_reduction_kept)};
}

// Without the model's name, which comes first.
std::vector<Cell> cells(const Summary& s) {
  const SummaryPoint* selected = find_point(s, s.selected);
  std::string loss = loss_name(s);
  return {size_cell(&s.baseline),    size_cell(&s.fully_quantized),   size_cell(selected),
          kept_cell(s, selected),    loss_cell(selected, loss, true), loss_cell(&s.fully_quantized, loss, false),
          latency_cell(&s.baseline), latency_cell(selected),          {std::to_string(s.evaluations), ""}};
}

std::string html_row(const OverviewEntry& e) {
  if (!e.summary)
    return fmt::format(
        "<tr class=\"failed\"><td class=\"model\">{}</td><td class=\"reason\" colspan=\"{}\">{}</td></tr>\n",
        escape_html(e.name), headings().size() - 1, escape_html(e.failure));
  std::string row = fmt::format("<td class=\"model\"><a href=\"./{}/report.html\">{}</a></td>",
                                percent_encoded(e.name, "-._~"), escape_html(e.name));
  for (const Cell& c : cells(*e.summary))
    row += fmt::format("<td data-value=\"{}\">{}</td>", escape_html(c.value.empty() ? c.text : c.value),
                       escape_html(c.text));
  return "<tr>" + row + "</tr>\n";
}

std::string page(std::span<const OverviewEntry> entries) {
  auto tuned = std::count_if(entries.begin(), entries.end(), [](const auto& e) { return e.summary.has_value(); });
  std::string heads, rows;
  for (const auto& name : headings()) heads += fmt::format("<th scope=\"col\">{}</th>", name);
  for (const auto& entry : entries) rows += html_row(entry);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<title>{0} models · seqto</title>\n<style>\n{1}</style>\n</head>\n<body>\n<main>\n<h1>{0} models</h1>\n"
      "<p class=\"lead\">{2} of them tuned. Sizes of the float model, of int8 in every layer and of the selected "
      "candidate; the share of int8's size reduction that it keeps; its loss, and that of int8; "
      "times of one sample.</p>\n<section><div class=\"wide\"><table>\n<thead><tr>{3}</tr></thead>\n"
      "<tbody>\n{4}</tbody></table></div></section>\n</main>\n</body>\n</html>\n",
      entries.size(), report_css(), tuned, heads, rows);
}

}  // namespace

std::string overview_table(std::span<const OverviewEntry> entries, const TextStyle& style) {
  std::vector<TableColumn> columns{{headings().front(), TableColumn::kName}};
  // Where there is no room, 1 goes first; the model, its size and that of int8 stay.
  constexpr int kStays[] = {0, 0, 0, 7, 3, 6, 2, 4, 5, 1};
  for (size_t i = 1; i < headings().size(); ++i) columns.push_back({headings()[i], TableColumn::kFigure, kStays[i]});
  std::vector<TableRow> rows;
  for (const auto& e : entries) {
    rows.push_back({e.name});
    if (e.summary)
      for (Cell& c : cells(*e.summary)) rows.back().push_back(std::move(c.text));
    else rows.back().push_back("failed");
    rows.back().resize(columns.size());
  }
  std::string text;
  for (const auto& line : table_lines(std::move(columns), std::move(rows), style)) text += line + "\n";
  for (const auto& e : entries)
    if (!e.summary) text += fmt::format("{}: {}\n", e.name, e.failure);
  return text;
}

std::string overview_to_json(std::span<const OverviewEntry> entries) {
  Json list = Json::array();
  for (const auto& e : entries) {
    Json j{{"model", e.name}};
    if (e.summary) j["summary"] = internal::parse_json<Json>(summary_to_json(*e.summary));
    else j["failure"] = e.failure;
    list.push_back(std::move(j));
  }
  return Json{{"schema_version", 1}, {"models", std::move(list)}}.dump(1, ' ', false, Json::error_handler_t::replace);
}

void write_overview(std::span<const OverviewEntry> entries, const std::filesystem::path& dir) {
  write_file_atomic(dir / "overview.json", overview_to_json(entries) + "\n");
  write_file_atomic(dir / "index.html", page(entries));
}

}  // namespace seqto
