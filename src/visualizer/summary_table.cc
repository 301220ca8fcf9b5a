// The terminal's table. Where `columns` are few, it leaves out what is least missed.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "seqto/report.h"
#include "visualizer/format.h"
#include "visualizer/points.h"

namespace seqto {
namespace {

struct Column {
  std::string title;
  int dropped;  // order in which columns go when there is no room; 0: never
  std::vector<std::string> cells;
};

std::string clip(const std::string& text, int columns) {
  int seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xC0) != 0x80 && seen++ == columns) return text.substr(0, i);
  }
  return text;
}

int width(const Column& column) {
  return std::accumulate(
      column.cells.begin(), column.cells.end(), internal::screen_width(column.title),
      [](int most, const std::string& cell) { return std::max(most, internal::screen_width(cell)); });
}

int width(const std::vector<Column>& table) {
  const int gaps = 2 * (static_cast<int>(table.size()) - 1);
  return std::accumulate(table.begin(), table.end(), gaps, [](int sum, const Column& c) { return sum + width(c); });
}

std::string mark(const Summary& summary, const SummaryPoint& point) {
  const std::string& id = point.trial.id;
  return fmt::format("{}{}{}", id == summary.selected ? ">" : " ", internal::rank(summary, id) ? "*" : " ",
                     point.alike.empty() ? "" : "~");
}

// "0.0084-0.0121"; nothing where the samples say nothing of it.
std::string interval(const Measurement& measured, const std::string& name) {
  const auto found = measured.intervals.find(name);
  if (found == measured.intervals.end()) return "-";
  return fmt::format("{}-{}", internal::format_figure(found->second.low), internal::format_figure(found->second.high));
}

constexpr const char* kInterval = "95 %";

// Title, order of leaving, and the text of a measured point.
std::vector<Column> empty_table(const std::string& loss, bool labels) {
  std::vector<Column> table{{"", 0, {}},   {"id", 0, {}},      {"size", 0, {}},       {"kept", 3, {}},
                            {loss, 6, {}}, {kInterval, 1, {}}, {"top1_disagr", 4, {}}};
  if (labels) table.push_back({"top1", 2, {}});
  table.push_back({"latency", 5, {}});
  return table;
}

void add_row(std::vector<Column>& table, const Summary& summary, const SummaryPoint& point, bool labels) {
  std::vector<std::string> row{mark(summary, point), point.trial.id};
  if (const auto& measured = point.trial.measurement) {
    row.push_back(format_bytes(measured->size_bytes));
    row.push_back(internal::format_percent(point.size_reduction_kept));
    const std::string loss = internal::loss_name(summary);
    row.push_back(internal::format_figure(internal::loss_of(point.trial, loss)));
    row.push_back(interval(*measured, loss));
    row.push_back(internal::format_percent(measured->losses.top1_disagreement));
    if (labels) {
      const auto top1 = measured->metrics.find("top1");
      row.push_back(top1 == measured->metrics.end() ? "-" : internal::format_percent(top1->second));
    }
    row.push_back(measured->latency.median_ns > 0 ? format_duration(measured->latency.median_ns) : "-");
  } else {
    row.push_back("failed");
    row.resize(table.size(), "-");
  }
  for (size_t i = 0; i < table.size(); ++i) table[i].cells.push_back(std::move(row[i]));
}

void make_fit(std::vector<Column>& table, int columns) {
  if (width(table) > columns) {
    for (auto& id : table[1].cells)
      if (id.size() == 16) id = clip(id, 8);  // a hash; names stay whole
  }
  for (int leaving = 1; leaving <= 6 && width(table) > columns; ++leaving) {
    std::erase_if(table, [&](const Column& column) { return column.dropped == leaving; });
  }
}

std::string line(const std::vector<Column>& table, const std::vector<int>& widths, int row, int columns) {
  std::string text;
  for (size_t i = 0; i < table.size(); ++i) {
    const auto& cell = row < 0 ? table[i].title : table[i].cells[static_cast<size_t>(row)];
    const std::string padding(static_cast<size_t>(widths[i] - internal::screen_width(cell)), ' ');
    const bool left = i < 2;  // marks and ids; figures stand to the right
    text += (i ? "  " : "") + (left ? cell + padding : padding + cell);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return clip(text, columns) + "\n";
}

std::string device_table(const Summary& summary, int columns) {
  std::vector<const SummaryPoint*> rows;
  const auto add = [&](const SummaryPoint& point) {
    const auto same = [&](const SummaryPoint* other) { return other->trial.id == point.trial.id; };
    if (!point.trial.id.empty() && std::none_of(rows.begin(), rows.end(), same)) rows.push_back(&point);
  };
  add(summary.baseline);
  add(summary.fully_quantized);
  for (const auto& point : summary.front) add(point);

  const bool labels = std::any_of(rows.begin(), rows.end(), [](const SummaryPoint* point) {
    return point->trial.measurement && point->trial.measurement->metrics.contains("top1");
  });
  const std::string loss = internal::loss_name(summary);
  auto table = empty_table(loss, labels);
  for (const auto* point : rows) add_row(table, summary, *point, labels);
  const bool intervals = std::ranges::any_of(rows, [&](const SummaryPoint* point) {
    return point->trial.measurement && point->trial.measurement->intervals.contains(loss);
  });
  if (!intervals) std::erase_if(table, [](const Column& column) { return column.title == kInterval; });
  make_fit(table, columns);

  std::vector<int> widths;
  for (const auto& column : table) widths.push_back(width(column));
  std::string text;
  for (int row = -1; row < static_cast<int>(rows.size()); ++row) text += line(table, widths, row, columns);
  return text;
}

// "blocks.3: int8 float32": the scheme of each device's selected candidate.
std::string differing_choices(const Summary& summary, int columns) {
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
        line += fmt::format("  {} {}", device.device, to_string(internal::scheme_of(point->trial.plan, layers[i])));
    };
    add(summary);
    for (const auto& device : summary.elsewhere) add(device);
    text += clip(line, columns) + "\n";
  }
  if (layers.size() > kMost) text += "  ...\n";
  return text;
}

}  // namespace

std::string summary_table(const Summary& summary, int columns) {
  std::string text;
  if (!summary.elsewhere.empty()) text += fmt::format("on {}:\n", summary.device);
  text += device_table(summary, columns);
  for (const auto& device : summary.elsewhere)
    text += fmt::format("on {}:\n{}", device.device, device_table(internal::on_device(summary, device), columns));
  if (!summary.elsewhere.empty()) text += differing_choices(summary, columns);
  if (internal::has_random_data(summary))
    text += clip("random inputs: sizes and latencies mean something, losses do not", columns) + "\n";
  if (!summary.selected.empty()) text += clip("> selected  * among the top three", columns) + "\n";
  if (std::ranges::any_of(summary.front, [](const SummaryPoint& point) { return !point.alike.empty(); }))
    text +=
        clip(fmt::format("~ {} samples cannot tell its loss from a smaller one's", summary.header.evaluation_samples),
             columns) +
        "\n";
  return text;
}

}  // namespace seqto
