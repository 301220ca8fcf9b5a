// The candidates of a study: those that matter side by side, and the table of all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "metrics/loss/loss_fields.h"
#include "seqto/task.h"
#include "visualizer/format.h"
#include "visualizer/html.h"
#include "visualizer/page_sections.h"
#include "visualizer/points.h"

namespace seqto::internal {
namespace {

// A figure and what is known beside it, below it in small letters; `label` is its column's, for narrow screens.
std::string side_cell(std::string_view label, const std::string& figure, const std::string& beside) {
  return fmt::format("<td data-label=\"{}\">{}{}</td>", text(label), text(figure),
                     beside.empty() ? "" : fmt::format("<span class=\"hint\">{}</span>", text(beside)));
}

std::string ends(const SummaryPoint& point, const std::string& figure, bool percent) {
  const auto interval = judged_interval(point, figure);
  if (!interval) return "";
  if (!percent) return format_interval(*interval);
  return format_percent(interval->low) + " to " + format_percent(interval->high);
}

std::string smaller(const SummaryPoint& point, const SummaryPoint& than) {
  if (!measured(&than) || point.trial.id == than.trial.id) return "";
  const double ratio = static_cast<double>(than.trial.measurement->size_bytes) /
                       static_cast<double>(point.trial.measurement->size_bytes);
  if (std::abs(ratio - 1) < kSame) return "of the same size";
  return fmt::format("{:.1f} x {}", ratio < 1 ? 1 / ratio : ratio, ratio < 1 ? "larger" : "smaller");
}

// "21 int8, 4 float32", most first: as the written model is, where that is known.
std::string schemes(const Summary& summary, const SummaryPoint& point) {
  std::map<std::string, int> counts;
  std::map<std::string, std::string> known;
  if (const auto found = summary.explained.find(point.trial.id); found != summary.explained.end())
    for (const LayerReport& report : found->second) known[report.name] = report.scheme;
  for (const Layer& layer : summary.layers) {
    if (!takes_codes(layer)) continue;
    const auto written = known.find(layer.id);
    ++counts[written != known.end() ? written->second
                                    : std::string(to_string(detailed_scheme(point.trial.plan, layer.id).scheme))];
  }
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string words;
  for (const auto& [scheme, count] : sorted) words += fmt::format("{}{} {}", words.empty() ? "" : ", ", count, scheme);
  return words;
}

std::string tags(const Summary& summary, const std::string& id) {
  std::string words;
  if (id == summary.selected) words += "<span class=\"tag\">selected</span>";
  if (const int place = rank(summary, id)) words += fmt::format("<span class=\"tag\">top {}</span>", place);
  return words;
}

// The name leads to the file. Our own relative paths; "./" keeps any text from being read as a scheme.
std::string link(const SummaryPoint& point) {
  const std::string name = text(point.name.empty() ? point.trial.id : point.name);
  return point.file.empty() ? name : fmt::format("<a href=\"./{}\">{}</a>", text(point.file), name);
}

std::string side_row(const Summary& summary, const SummaryPoint& point, bool classes) {
  const Measurement& m = *point.trial.measurement;
  const std::string loss = loss_name(summary), &id = point.trial.id;
  const bool is_float = id == summary.baseline.trial.id;
  std::string row = fmt::format("<th scope=\"row\">{}{}</th>", link(point), tags(summary, id)) +
                    side_cell("size", format_bytes(m.size_bytes), smaller(point, summary.baseline));
  row += m.latency.median_ns > 0 ? side_cell("latency", format_duration(m.latency.median_ns),
                                             format_durations(m.latency.p10_ns, m.latency.p90_ns))
                                 : side_cell("latency", "–", "");
  if (times_decoding(summary))
    row += m.decode_latency ? side_cell("decode", format_duration(m.decode_latency->median_ns),
                                        format_durations(m.decode_latency->p10_ns, m.decode_latency->p90_ns))
                            : side_cell("decode", "–", "");
  std::string beside = is_float ? "" : ends(point, loss, false);
  if (const std::string worst = worst_output_text(m); !is_float && !worst.empty())
    beside += (beside.empty() ? "" : "; ") + worst;
  row += side_cell(loss_label(loss), is_float ? "0" : format_figure(loss_of(point, loss)), beside);
  if (classes)
    row +=
        side_cell(fmt::format("{} changed", task_of_study(summary.task).answers),
                  format_percent(m.losses.top1_disagreement), is_float ? "" : ends(point, "top1_disagreement", true));
  row += side_cell("layers", schemes(summary, point), "");
  return fmt::format("<tr class=\"{}\" data-id=\"{}\">{}</tr>\n", id == summary.selected ? "selected" : "", text(id),
                     row);
}

// A column of the table of all, and whether only `all columns` shows it.
struct Column {
  std::string name;
  bool more = false;
};

std::string hidden(std::string cells) {
  for (size_t at = 0; (at = cells.find("<td", at)) != std::string::npos; at += 3)
    cells.insert(at + 3, " class=\"more\"");
  return cells;
}

std::vector<Column> columns(const Summary& summary, const std::vector<std::string>& metrics, bool outcomes) {
  const std::string loss = loss_name(summary);
  const bool classes = measured(&summary.baseline) && has_classes(*summary.baseline.trial.measurement, loss);
  std::vector<Column> all{{"candidate"}, {"id", true}, {"trial", true}, {"size"}};
  if (tells_kept(summary)) all.push_back({"kept", true});
  all.push_back({"latency"});
  if (times_decoding(summary)) all.push_back({"decode"});
  for (const auto& field : kLossFields)
    all.push_back({std::string(field.name), field.name != loss && (!classes || field.name != "top1_disagreement")});
  for (const auto& name : metrics) all.push_back({name, name != loss && name != "top1"});
  all.push_back({"float by plan", true});
  if (outcomes) all.push_back({"outcome"});
  return all;
}

std::vector<std::string> figures(const Summary& summary, const SummaryPoint& point,
                                 const std::vector<std::string>& metrics) {
  const auto& m = point.trial.measurement;
  const bool decode = times_decoding(summary), kept = tells_kept(summary);
  if (!m) return std::vector<std::string>(kLossFields.size() + metrics.size() + 2 + kept + decode, empty_cell());
  const auto duration = [](int64_t ns) {
    return ns > 0 ? cell(static_cast<double>(ns), format_duration(ns)) : empty_cell();
  };
  std::vector<std::string> cells{cell(static_cast<double>(m->size_bytes), format_bytes(m->size_bytes))};
  if (kept) cells.push_back(cell(point.size_reduction_kept, format_percent(point.size_reduction_kept)));
  cells.push_back(duration(m->latency.median_ns));
  if (decode) cells.push_back(duration(m->decode_latency ? m->decode_latency->median_ns : 0));
  for (const auto& field : kLossFields)
    cells.push_back(cell(m->losses.*field.value, format_figure(m->losses.*field.value)));
  for (const auto& key : metrics) {
    const auto found = m->metrics.find(key);
    cells.push_back(found == m->metrics.end() ? empty_cell() : cell(found->second, format_figure(found->second)));
  }
  return cells;
}

std::string trial_row(const Summary& summary, const SummaryPoint& point, const std::vector<std::string>& metrics,
                      const std::vector<Column>& heads) {
  const auto& trial = point.trial;
  std::vector<std::string> cells{fmt::format("<td>{}{}</td>", link(point), tags(summary, trial.id)),
                                 fmt::format("<td><code>{}</code></td>", text(trial.id)),
                                 cell(static_cast<double>(trial.number), fmt::to_string(trial.number))};
  for (std::string& figure : figures(summary, point, metrics)) cells.push_back(std::move(figure));
  const auto floats = float_layers(summary, trial.plan);
  cells.push_back(floats < 0 ? empty_cell() : cell(static_cast<double>(floats), fmt::to_string(floats)));
  if (cells.size() < heads.size())
    cells.push_back(
        fmt::format("<td class=\"reason\">{}</td>", trial.measurement ? "" : "failed: " + text(trial.failure)));
  std::string row;
  for (size_t i = 0; i < cells.size(); ++i) row += heads[i].more ? hidden(cells[i]) : cells[i];
  std::string classes = on_front(summary, trial.id) ? "front" : "";
  if (trial.id == summary.selected) classes += " selected";
  if (!trial.measurement) classes += " failed";
  return fmt::format("<tr class=\"{}\" data-id=\"{}\">{}</tr>\n", classes, text(trial.id), row);
}

}  // namespace

std::string chosen_section(const Summary& summary) {
  std::vector<const SummaryPoint*> shown;
  const auto add = [&](const SummaryPoint* point) {
    if (measured(point) &&
        std::ranges::find(shown, point->trial.id, [](const auto* p) { return p->trial.id; }) == shown.end())
      shown.push_back(point);
  };
  add(find_point(summary, summary.selected));
  for (const auto& id : summary.top) add(find_point(summary, id));
  add(&summary.fully_quantized);
  add(&summary.baseline);
  if (shown.empty()) return "";
  const std::string loss = loss_name(summary);
  const bool classes = std::ranges::all_of(shown, [&](const auto* p) {
    const Measurement& m = *p->trial.measurement;
    return has_classes(m, loss) && !std::isnan(m.losses.top1_disagreement);
  });
  std::string heads, rows, doubt;
  const auto &float_latency = summary.baseline.trial.measurement, &latency = shown[0]->trial.measurement;
  if (float_latency && shown[0]->trial.id == summary.selected && is_doubtful(latency->latency, float_latency->latency))
    doubt = fmt::format("<p class=\"hint\">Latency of {}: {}. The difference may be the machine's noise.</p>\n",
                        text(shown[0]->name), text(format_doubt(latency->latency, float_latency->latency)));
  std::vector<std::string> names{"candidate", "size", "latency"};
  if (times_decoding(summary)) names.emplace_back("decode");
  names.push_back(loss_label(loss));
  if (classes) names.push_back(fmt::format("{} changed", task_of_study(summary.task).answers));
  names.emplace_back("layers");
  for (const auto& name : names) heads += fmt::format("<th scope=\"col\">{}</th>", text(name));
  for (const auto* point : shown) rows += side_row(summary, *point, classes);
  return fmt::format(
      "<section><h2>Side by side</h2>\n<p class=\"hint\">Small figures: times smaller than float, p10 to p90 of the "
      "latency{}, 95 % intervals. Top 1 to 3 are nearest to the ideal of all objectives.</p>\n<div "
      "class=\"wide\"><table "
      "class=\"cards\" id=\"chosen\"><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>{}</section>\n",
      times_decoding(summary) ? fmt::format(" {} and, decode, on the next token", task_of_study(summary.task).a_run)
                              : "",
      heads, rows, doubt);
}

std::string trials_table(const Summary& summary) {
  std::vector<std::string> metrics;
  const auto all = points(summary);
  for (const auto* point : all) {
    if (!point->trial.measurement) continue;
    for (const auto& [name, value] : point->trial.measurement->metrics)
      if (std::ranges::find(metrics, name) == metrics.end()) metrics.push_back(name);
  }
  const bool outcomes = std::ranges::any_of(all, [](const auto* point) { return !point->trial.measurement; });
  const auto shown = columns(summary, metrics, outcomes);
  std::string head, rows;
  for (const Column& column : shown) head += sort_head(column.name, column.more);
  for (const auto* point : all) rows += trial_row(summary, *point, metrics, shown);
  return fmt::format(
      "<section class=\"long\"><label class=\"switch\"><input type=\"checkbox\" id=\"all-columns\"> all "
      "columns</label><h2>All {} candidates</h2>\n<p class=\"hint\">A blue edge: on the front. Select a heading to "
      "sort.</p>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"All candidates\"><table "
      "class=\"sortable\" id=\"trials\"><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div></section>\n",
      all.size(), head, rows);
}

}  // namespace seqto::internal
