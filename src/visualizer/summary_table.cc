// The terminal's table and what its words mean. Where there is little room, it leaves out what is least missed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json.h"
#include "seqto/report.h"
#include "seqto/task.h"
#include "visualizer/format.h"
#include "visualizer/points.h"
#include "visualizer/table_rows.h"

namespace seqto {
namespace {

using internal::clip;
using internal::ShownPoint;

constexpr double kNoisy = 1.5;  // nine runs in ten differ by so much: their median alone tells little

const Measurement* measured(const SummaryPoint& point) {
  return point.trial.measurement ? &*point.trial.measurement : nullptr;
}

bool is_noisy(const SummaryPoint& point) {
  const Measurement* m = measured(point);
  return m && static_cast<double>(m->latency.p90_ns) > kNoisy * static_cast<double>(m->latency.p10_ns);
}

// Task metrics that the user named and the study measured; top1 has a column wherever there are labels.
std::vector<std::string> asked_metrics(const Summary& summary) {
  const Measurement* before = measured(summary.baseline);
  const auto options = internal::parse_json_if_any(summary.header.options_json);
  std::vector<std::string> names;
  if (!before || !options.is_object() || !options.contains("metrics")) return names;
  for (const auto& metric : options["metrics"]) {
    const std::string command = metric.value("command", "");  // NAME:max:COMMAND
    const std::string name = metric.value("name", command.substr(0, command.find(':')));
    if (name != "top1" && before->metrics.contains(name)) names.push_back(name);
  }
  return names;
}

// What a table of these points has columns for.
struct Columns {
  std::string loss;
  std::vector<std::string> asked;
  bool classes = true, kept = false, labels = false, intervals = false, spreads = false, decode = false;
  bool shares = false;  // of squared error, which the tolerance is held against and the loss does not tell

  Columns(const Summary& summary, const std::vector<ShownPoint>& rows)
      : loss(internal::loss_name(summary)),
        asked(asked_metrics(summary)),
        kept(internal::tells_kept(summary)),
        decode(internal::times_decoding(summary)),
        shares(summary.judged_by == "nmse" && loss != "nmse" && !task_of_study(summary.task).embeds) {
    for (const ShownPoint& row : rows) {
      const Measurement* m = measured(*row.point);
      if (m && !internal::has_classes(*m, loss)) classes = false;
      labels |= m && m->metrics.contains("top1");
      intervals |= internal::loss_interval(*row.point, loss).has_value();
      spreads |= is_noisy(*row.point);
    }
  }

  std::vector<TableColumn> titles() const {
    constexpr auto kFigure = TableColumn::kFigure;
    std::vector<TableColumn> table{{"    name"}, {"size", kFigure}};
    if (kept) table.push_back({"kept", kFigure, 4});
    table.push_back({internal::loss_label(loss), kFigure, 7});
    if (intervals) table.push_back({"95 %", kFigure, 1});
    if (shares) table.push_back({"nmse", kFigure, 8});
    if (classes) table.push_back({"changed", kFigure, 5});
    if (labels) table.push_back({"top1", kFigure, 3});
    for (const std::string& name : asked) table.push_back({name, kFigure, 4});
    table.push_back({"latency", kFigure, 6});
    if (spreads) table.push_back({"p10-p90", kFigure, 2});
    if (decode) table.push_back({"decode", kFigure, 6});
    return table;
  }
};

std::string named(const Summary& summary, const ShownPoint& row) {
  const std::string& id = row.point->trial.id;
  return fmt::format("{}{}{} {}", id == summary.selected ? ">" : " ", internal::rank(summary, id) ? "*" : " ",
                     row.folded > 0 ? "~" : " ", row.point->name);
}

TableRow cells(const Summary& summary, const ShownPoint& row, const Columns& columns) {
  const SummaryPoint& point = *row.point;
  const Measurement* m = measured(point);
  if (!m) {
    TableRow failed{named(summary, row), "failed"};
    failed.resize(columns.titles().size(), "-");
    return failed;
  }
  TableRow cells{named(summary, row), format_bytes(m->size_bytes)};
  if (columns.kept) cells.push_back(internal::format_percent(point.size_reduction_kept));
  cells.push_back(internal::format_figure(internal::loss_of(point, columns.loss)));
  const auto ends = internal::loss_interval(point, columns.loss);
  if (columns.intervals) cells.push_back(ends ? internal::format_interval(*ends) : "-");
  if (columns.shares) cells.push_back(internal::format_percent(m->losses.nmse));
  if (columns.classes) cells.push_back(internal::format_percent(m->losses.top1_disagreement));
  if (columns.labels) {
    const auto top1 = m->metrics.find("top1");
    cells.push_back(top1 == m->metrics.end() ? "-" : internal::format_percent(top1->second));
  }
  for (const std::string& name : columns.asked) {
    const auto metric = m->metrics.find(name);
    cells.push_back(metric == m->metrics.end() ? "-" : internal::format_figure(metric->second));
  }
  const Latency& t = m->latency;
  cells.push_back(t.median_ns > 0 ? format_duration(t.median_ns) : "-");
  if (columns.spreads) cells.push_back(t.median_ns > 0 ? internal::format_durations(t.p10_ns, t.p90_ns) : "-");
  if (columns.decode) cells.push_back(m->decode_latency ? format_duration(m->decode_latency->median_ns) : "-");
  return cells;
}

// What is known of the front beside these rows.
std::string more(const Summary& summary, const std::vector<ShownPoint>& rows) {
  const auto shown = [&](const SummaryPoint& point) {
    return std::ranges::any_of(rows, [&](const ShownPoint& row) { return row.point->trial.id == point.trial.id; });
  };
  const auto count = std::ranges::count_if(summary.front, [&](const SummaryPoint& point) { return !shown(point); });
  return count > 0 ? fmt::format("    {} more in report.html\n", count) : "";
}

std::string device_table(const Summary& summary, const TextStyle& style) {
  const std::vector<ShownPoint> points = internal::shown_points(summary);
  const Columns columns(summary, points);
  std::vector<TableRow> rows;
  for (const ShownPoint& row : points) rows.push_back(cells(summary, row, columns));
  std::string text;
  const auto lines = table_lines(columns.titles(), std::move(rows), style);
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool selected = i > 0 && points[i - 1].point->trial.id == summary.selected;
    text += (selected ? painted(lines[i], Colour::kChosen, style) : lines[i]) + "\n";
  }
  return text + more(summary, points);
}

// What marks and columns of the tables mean.
std::string legend(const Summary& summary, const TextStyle& style) {
  const std::vector<ShownPoint> points = internal::shown_points(summary);
  const Columns columns(summary, points);
  std::vector<std::string> marks{"> use this one"}, words;
  if (!summary.top.empty()) marks.emplace_back("* nearest to the ideal");
  if (std::ranges::any_of(points, [](const ShownPoint& row) { return row.folded > 0; }))
    marks.emplace_back("~ some larger ones are no better");
  const std::string& full = summary.fully_quantized.name;
  if (full == "ort-int8") {
    const bool both = std::ranges::any_of(points, [](const ShownPoint& row) { return row.point->name == "int8"; });
    words.emplace_back(both ? "int8: all layers; ort-int8: by onnxruntime's defaults"
                            : "ort-int8: all layers by onnxruntime's defaults");
  }
  if (columns.kept) words.push_back(fmt::format("kept: bytes saved, of {}'s", full));
  words.push_back(fmt::format("{}: against float, 0 is equal", internal::loss_label(columns.loss)));
  if (columns.shares) words.emplace_back("nmse: squared error, of the outputs' variance");
  if (columns.classes) words.push_back(fmt::format("changed: {} unlike float's", task_of_study(summary.task).answers));
  const auto a_run = columns.decode ? std::string(task_of_study(summary.task).a_run) : "";
  const char* elsewhere =
      internal::is_for_another_device(summary) ? "of this machine, which may not be the target" : "";
  const char* both = columns.decode && *elsewhere ? ", " : "";
  if (columns.decode || *elsewhere) words.push_back(fmt::format("latency: {}{}{}", a_run, both, elsewhere));
  if (columns.decode) words.emplace_back("decode: on the next token");
  return internal::wrapped(fmt::format("{}", fmt::join(marks, "  ")), style.columns) +
         internal::wrapped(fmt::format("{}", fmt::join(words, "; ")), style.columns);
}

// A line of its own, cut where there is no room.
std::string shown(const std::string& line, const TextStyle& style) {
  return (style.columns > 0 ? clip(line, style.columns) : line) + "\n";
}

// A sentence where what was timed cannot be told apart.
std::string latency_doubt(const Summary& summary, const TextStyle& style) {
  const SummaryPoint* selected = internal::find_point(summary, summary.selected);
  const Measurement* before = measured(summary.baseline);
  const Measurement* after = selected ? measured(*selected) : nullptr;
  if (!before || !after || !internal::is_doubtful(after->latency, before->latency)) return "";
  return internal::wrapped(fmt::format("latency of {}: {}: not told apart", selected->name,
                                       internal::format_doubt(after->latency, before->latency)),
                           style.columns);
}

// What the mean over several outputs hides.
std::string worst_output(const Summary& summary, const TextStyle& style) {
  const SummaryPoint* selected = internal::find_point(summary, summary.selected);
  const Measurement* m = selected ? measured(*selected) : nullptr;
  const std::string text = m && selected->trial.id != summary.baseline.trial.id ? internal::worst_output_text(*m) : "";
  return text.empty() ? "" : internal::wrapped(fmt::format("of {}: {}", selected->name, text), style.columns);
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
  if (!text.empty()) text = internal::wrapped(text, style.columns, "  ") + "\n";
  if (!summary.elsewhere.empty()) text += shown(fmt::format("on {}:", summary.device), style);
  text += device_table(summary, style);
  for (const auto& device : summary.elsewhere)
    text +=
        shown(fmt::format("on {}:", device.device), style) + device_table(internal::on_device(summary, device), style);
  if (!summary.elsewhere.empty()) text += differing_choices(summary, style);
  if (internal::has_random_data(summary))
    text += internal::wrapped("random inputs: sizes and latencies mean something, losses do not", style.columns);
  if (!summary.selected.empty()) text += legend(summary, style);
  if (!summary.size_note.empty()) text += internal::wrapped(summary.size_note, style.columns);
  return text + worst_output(summary, style) + latency_doubt(summary, style);
}

}  // namespace seqto
