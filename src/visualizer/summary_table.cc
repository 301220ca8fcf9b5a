// The terminal's table. Where there is little room, it leaves out what is least missed.
#include <fmt/format.h>

#include <algorithm>

#include "seqto/report.h"
#include "visualizer/format.h"
#include "visualizer/points.h"

namespace seqto {
namespace {

using internal::clip;

std::string mark(const Summary& summary, const SummaryPoint& point) {
  const std::string& id = point.trial.id;
  return fmt::format("{}{}{}", id == summary.selected ? ">" : " ", internal::rank(summary, id) ? "*" : " ",
                     point.alike.empty() ? "" : "~");
}

// "0.0084-0.0121"; nothing where the samples say nothing of it.
std::string interval(const SummaryPoint& point, const std::string& name) {
  const auto ends = internal::loss_interval(point, name);
  return ends ? fmt::format("{}{}{}", internal::format_figure(ends->low), ends->low < 0 ? " to " : "-",
                            internal::format_figure(ends->high))
              : "-";
}

// Marks, names, and the figures of a measured point.
std::vector<TableColumn> empty_table(const std::string& loss, bool classes, bool labels, bool intervals) {
  constexpr auto kFigure = TableColumn::kFigure;
  std::vector<TableColumn> table{{""}, {"name"}, {"size", kFigure}, {"kept", kFigure, 3}, {loss, kFigure, 6}};
  if (intervals) table.push_back({"95 %", kFigure, 1});
  if (classes) table.push_back({"top1_disagr", kFigure, 4});
  if (labels) table.push_back({"top1", kFigure, 2});
  table.push_back({"latency", kFigure, 5});
  return table;
}

TableRow row_of(const Summary& summary, const SummaryPoint& point, bool classes, bool labels, bool intervals) {
  TableRow row{mark(summary, point), point.name};
  const auto& measured = point.trial.measurement;
  if (!measured) {
    row.push_back("failed");
    row.resize(empty_table("", classes, labels, intervals).size(), "-");
    return row;
  }
  row.push_back(format_bytes(measured->size_bytes));
  row.push_back(internal::format_percent(point.size_reduction_kept));
  const std::string loss = internal::loss_name(summary);
  row.push_back(internal::format_figure(internal::loss_of(point, loss)));
  if (intervals) row.push_back(interval(point, loss));
  if (classes) row.push_back(internal::format_percent(measured->losses.top1_disagreement));
  if (labels) {
    const auto top1 = measured->metrics.find("top1");
    row.push_back(top1 == measured->metrics.end() ? "-" : internal::format_percent(top1->second));
  }
  row.push_back(measured->latency.median_ns > 0 ? format_duration(measured->latency.median_ns) : "-");
  return row;
}

std::string device_table(const Summary& summary, const TextStyle& style) {
  std::vector<const SummaryPoint*> points;
  const auto add = [&](const SummaryPoint& point) {
    const auto same = [&](const SummaryPoint* other) { return other->trial.id == point.trial.id; };
    if (!point.trial.id.empty() && std::none_of(points.begin(), points.end(), same)) points.push_back(&point);
  };
  add(summary.baseline);
  add(summary.fully_quantized);
  for (const auto& point : summary.front) add(point);

  const std::string loss = internal::loss_name(summary);
  const bool labels = std::ranges::any_of(points, [](const SummaryPoint* point) {
    return point->trial.measurement && point->trial.measurement->metrics.contains("top1");
  });
  const bool classes = std::ranges::none_of(points, [&](const SummaryPoint* point) {
    return point->trial.measurement && !internal::has_classes(*point->trial.measurement, loss);
  });
  const bool intervals = std::ranges::any_of(
      points, [&](const SummaryPoint* point) { return internal::loss_interval(*point, loss).has_value(); });
  const auto table = empty_table(internal::loss_label(loss), classes, labels, intervals);
  std::vector<TableRow> rows;
  for (const auto* point : points) rows.push_back(row_of(summary, *point, classes, labels, intervals));

  std::string text;
  const auto lines = table_lines(table, std::move(rows), style);
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool selected = i > 0 && points[i - 1]->trial.id == summary.selected;
    text += (selected ? painted(lines[i], Colour::kChosen, style) : lines[i]) + "\n";
  }
  return text;
}

// A line of its own, cut where there is no room.
std::string shown(const std::string& line, const TextStyle& style) {
  return (style.columns > 0 ? clip(line, style.columns) : line) + "\n";
}

// "blocks.3: int8 float32": the scheme of each device's selected candidate.
std::string differing_choices(const Summary& summary, const TextStyle& style) {
  constexpr size_t kMost = 12;
  const auto layers = internal::where_choices_differ(summary);
  std::string text =
      layers.empty() ? "the same layers are chosen on every device\n"
                     : fmt::format("the choice differs in {} layer{}:\n", layers.size(), layers.size() == 1 ? "" : "s");
  for (size_t i = 0; i < layers.size() && i < kMost; ++i) {
    std::string line = "  " + layers[i] + ":";
    const auto add = [&](const DeviceFront& device) {
      const auto* point = internal::find_point(summary, device.selected);
      if (point)
        line += fmt::format("  {} {}", device.device, to_string(detailed_scheme(point->trial.plan, layers[i])));
    };
    add(summary);
    for (const auto& device : summary.elsewhere) add(device);
    text += shown(line, style);
  }
  if (layers.size() > kMost) text += "  ...\n";
  return text;
}

}  // namespace

std::string summary_table(const Summary& summary, const TextStyle& style) {
  std::string text = answer(summary);
  if (const size_t colon = text.find(": ");
      style.columns > 0 && text.size() > static_cast<size_t>(style.columns) && colon != text.npos)
    text = clip(text.substr(0, colon + 1), style.columns) + "\n" + clip("  " + text.substr(colon + 2), style.columns);
  if (!text.empty()) text += "\n\n";
  if (!summary.elsewhere.empty()) text += fmt::format("on {}:\n", summary.device);
  text += device_table(summary, style);
  for (const auto& device : summary.elsewhere)
    text += fmt::format("on {}:\n{}", device.device, device_table(internal::on_device(summary, device), style));
  if (!summary.elsewhere.empty()) text += differing_choices(summary, style);
  if (internal::has_random_data(summary))
    text += shown("random inputs: sizes and latencies mean something, losses do not", style);
  if (!summary.selected.empty()) text += shown("> selected  * among the top three", style);
  if (std::ranges::any_of(summary.front, [](const SummaryPoint& point) { return !point.alike.empty(); }))
    text += shown(fmt::format("~ {} samples cannot tell its {} from a smaller one's", summary.header.evaluation_samples,
                              is_task_metric(internal::loss_name(summary)) ? internal::loss_name(summary) : "loss"),
                  style);
  return text;
}

}  // namespace seqto
