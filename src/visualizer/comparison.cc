#include "base/json.h"
#include "seqto/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/files.h"
#include "metrics/loss/loss_fields.h"
#include "visualizer/assets.h"
#include "visualizer/document.h"
#include "visualizer/echarts_js.h"
#include "visualizer/format.h"
#include "visualizer/html.h"
#include "visualizer/points.h"
#include "visualizer/report_data.h"
#include "visualizer/svg_engine.h"

namespace seqto {
namespace {

using namespace internal;
using Json = nlohmann::ordered_json;

constexpr const char* kNone = "–";

const SummaryPoint* selected_of(const ComparedStudy& study) {
  return find_point(study.summary, study.summary.selected);
}

// What a row is about, and a column for each study.
std::vector<TableColumn> columns_of(const Comparison& c, TableColumn first, TableColumn::Kind kind) {
  std::vector<TableColumn> columns{std::move(first)};
  for (const ComparedStudy& s : c.studies) columns.push_back({s.name, kind});
  return columns;
}

std::vector<std::string> shown(std::string head, const std::vector<std::string>& values) {
  std::vector<std::string> row{std::move(head)};
  for (const std::string& value : values) row.push_back(value.empty() ? kNone : value);
  return row;
}

// A row: one cell a study, of its selected point where that has figures.
template <class F>
std::vector<std::string> selected_row(const Comparison& c, const std::string& head, F cell_of) {
  std::vector<std::string> values;
  for (const ComparedStudy& s : c.studies) {
    const SummaryPoint* point = selected_of(s);
    values.push_back(measured(point) ? cell_of(s, *point) : "");
  }
  return shown(head, values);
}

std::string loss_text(const SummaryPoint& point, const std::string& name) {
  const double value = loss_of(point, name);
  if (std::isnan(value)) return "";
  std::string text = format_figure(value);
  if (const auto ends = loss_interval(point, name))
    text += fmt::format(" ({} to {})", format_figure(ends->low), format_figure(ends->high));
  return text;
}

std::string schemes_text(const ComparedStudy& study, const SummaryPoint& point) {
  std::map<std::string, int> counts;
  for (const Layer& layer : study.summary.layers)
    if (takes_codes(layer)) ++counts[std::string(to_string(detailed_scheme(point.trial.plan, layer.id)))];
  std::string text;
  for (const auto& [scheme, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, scheme);
  return text;
}

DocumentTable studies_table(const Comparison& c) {
  DocumentTable table{"Studies", columns_of(c, {""}, TableColumn::kValue), {}};
  const auto row = [&](const char* head, auto value_of) {
    std::vector<std::string> values;
    for (const ComparedStudy& s : c.studies) values.push_back(value_of(s));
    table.rows.push_back(shown(head, values));
  };
  row("model", [](const ComparedStudy& s) { return model_name(s.summary); });
  row("device", [](const ComparedStudy& s) { return s.summary.device; });
  row("trials", [](const ComparedStudy& s) { return fmt::to_string(s.summary.evaluations); });
  row("time", [](const ComparedStudy& s) { return format_duration(std::llround(s.summary.wall_seconds * 1e9)); });
  row("on the front", [](const ComparedStudy& s) { return fmt::to_string(s.summary.front.size()); });
  row("not beaten by another study", [](const ComparedStudy& s) { return fmt::to_string(s.leading.size()); });
  return table;
}

DocumentTable selected_table(const Comparison& c) {
  DocumentTable table{"Selected points", columns_of(c, {""}, TableColumn::kValue), {}};
  const auto row = [&](const std::string& head, auto cell_of) { table.rows.push_back(selected_row(c, head, cell_of)); };
  row("name", [](const ComparedStudy&, const SummaryPoint& p) { return p.name; });
  row("id", [](const ComparedStudy&, const SummaryPoint& p) { return p.trial.id; });
  row("size",
      [](const ComparedStudy&, const SummaryPoint& p) { return format_bytes(p.trial.measurement->size_bytes); });
  row("size reduction kept", [](const ComparedStudy& s, const SummaryPoint& p) {
    return tells_kept(s.summary) ? format_percent(p.size_reduction_kept) : "";
  });
  row("latency", [](const ComparedStudy&, const SummaryPoint& p) {
    const int64_t ns = p.trial.measurement->latency.median_ns;
    return ns > 0 ? format_duration(ns) : "";
  });
  for (const auto& field : kLossFields) {
    const std::string name(field.name);
    row(name, [&](const ComparedStudy&, const SummaryPoint& p) { return loss_text(p, name); });
  }
  std::set<std::string> metrics;
  for (const ComparedStudy& s : c.studies)
    if (const SummaryPoint* p = selected_of(s); measured(p))
      for (const auto& [name, value] : p->trial.measurement->metrics) metrics.insert(name);
  for (const std::string& name : metrics)
    row(name, [&](const ComparedStudy&, const SummaryPoint& p) {
      const auto found = p.trial.measurement->metrics.find(name);
      return found == p.trial.measurement->metrics.end() ? "" : format_figure(found->second);
    });
  row("layers", [](const ComparedStudy& s, const SummaryPoint& p) { return schemes_text(s, p); });
  return table;
}

DocumentTable differences_table(const Comparison& c, const char* title,
                                const std::vector<Comparison::Difference>& differences) {
  DocumentTable table{title, columns_of(c, {""}, TableColumn::kText), {}};
  for (const auto& d : differences) table.rows.push_back(shown(d.key, d.values));
  return table;
}

Document document_of(const Comparison& c) {
  Document d;
  d.title = fmt::format("{} studies compared", c.studies.size());
  std::string counts;
  for (const ComparedStudy& s : c.studies)
    counts +=
        fmt::format("{}{} of {} of {}", counts.empty() ? "" : ", ", s.leading.size(), s.summary.front.size(), s.name);
  d.verdict =
      fmt::format("Points of the fronts that no other study beats in {}: {}", fmt::join(c.objectives, ", "), counts);
  d.good = c.warnings.empty();
  d.judges = false;
  for (const std::string& warning : c.warnings) d.findings.push_back({"Mind: " + warning + ".", Colour::kBad});
  d.tables = {studies_table(c), selected_table(c)};
  DocumentTable layers{"Layers whose scheme in the selected points differs",
                       columns_of(c, {"layer", TableColumn::kName}, TableColumn::kText),
                       {}};
  for (const auto& l : c.layers) layers.rows.push_back(shown(l.layer, l.schemes));
  d.tables.push_back(std::move(layers));
  d.tables.push_back(differences_table(c, "What differs in inputs and options", c.options));
  d.tables.push_back(differences_table(c, "What differs in the environment", c.environment));
  if (c.layers.empty()) d.facts.emplace_back("The selected points have the same scheme in every layer.");
  return d;
}

// What plots.fronts() draws: all points of all studies, each with its study's position.
std::string plot_data(const Comparison& c) {
  const std::string loss = c.objectives.front();
  int64_t most = 0;
  Json points = Json::array(), names = Json::array();
  for (size_t s = 0; s < c.studies.size(); ++s) {
    const Summary& summary = c.studies[s].summary;
    names.push_back(c.studies[s].name);
    for (const SummaryPoint* point : internal::points(summary)) {
      Json json = point_data(summary, *point, loss);
      json["study"] = s;
      if (point->trial.measurement) most = std::max(most, point->trial.measurement->size_bytes);
      points.push_back(std::move(json));
    }
  }
  return safe_dump({{"model", fmt::format("{} studies", c.studies.size())},
                    {"loss", loss_label(loss)},
                    {"unit", size_unit(most)},
                    {"studies", std::move(names)},
                    {"points", std::move(points)}});
}

}  // namespace

std::string comparison_to_json(const Comparison& c) {
  Json json{{"schema_version", 1}, {"objectives", c.objectives}, {"warnings", c.warnings}};
  json["studies"] = Json::array();
  for (const ComparedStudy& s : c.studies) {
    const Json all = internal::parse_json<Json>(summary_to_json(s.summary));
    Json study{{"name", s.name}};
    for (const char* key : {"model", "samples", "objectives", "device", "baseline", "fully_quantized", "front", "top",
                            "selected", "hypervolume", "evaluations", "wall_seconds"})
      study[key] = all.at(key);
    study["leading"] = s.leading;
    json["studies"].push_back(std::move(study));
  }
  for (const auto& [key, list] : {std::pair{"options", &c.options}, std::pair{"environment", &c.environment}}) {
    json[key] = Json::array();
    for (const auto& d : *list) json[key].push_back({{"key", d.key}, {"values", d.values}});
  }
  json["layers"] = Json::array();
  for (const auto& l : c.layers) json["layers"].push_back({{"name", l.layer}, {"schemes", l.schemes}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string comparison_text(const Comparison& c, const TextStyle& style) {
  constexpr size_t kRows = 20, kCharacters = 60;
  Document d = document_of(c);
  for (DocumentTable& table : d.tables) {
    if (table.rows.size() > kRows) {
      const size_t more = table.rows.size() - kRows + 1;
      table.rows.resize(kRows - 1);
      table.rows.push_back(shown(fmt::format("... {} more", more), std::vector<std::string>(c.studies.size())));
    }
    for (auto& row : table.rows)
      for (std::string& cell : row) {
        if (cell.size() <= kCharacters) continue;
        size_t end = kCharacters - 3;
        while ((static_cast<unsigned char>(cell[end]) & 0xC0U) == 0x80U) --end;  // not within a character
        cell = cell.substr(0, end) + "...";
      }
  }
  return to_text(d, style);
}

void write_comparison(const Comparison& c, const std::filesystem::path& dir) {
  const std::string data = plot_data(c);
  Document d = document_of(c);
  d.html = plot_section("fronts", "The fronts",
                        fmt::format("Loss ({}) against size. Down and left is better; a line is what a study offers at "
                                    "each size.",
                                    text(loss_label(c.objectives.front()))));
  d.scripts = "<script type=\"application/json\" id=\"data\">" + data + "</script>\n" + script(echarts_js()) +
              script(plots_js()) + script(page_js());
  write_file_atomic(dir / "plots" / "fronts.svg", draw_svgs(data, {"fronts"}).front());
  write_file_atomic(dir / "comparison.json", comparison_to_json(c));
  write_file_atomic(dir / "comparison.html", to_html(d));
}

}  // namespace seqto
