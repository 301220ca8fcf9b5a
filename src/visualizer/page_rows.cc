// The section of report.html about models that answer position by position, as language models do.
#include <fmt/format.h>

#include <algorithm>

#include "seqto/task.h"
#include "visualizer/format.h"
#include "visualizer/html.h"
#include "visualizer/page_sections.h"
#include "visualizer/points.h"

namespace seqto::internal {
namespace {

std::vector<const SummaryPoint*> shown_points(const Summary& summary) {
  std::vector<const SummaryPoint*> shown;
  const auto add = [&](const SummaryPoint* point) {
    const bool has_rows = measured(point) && point->trial.measurement->kl_rows;
    if (has_rows && std::ranges::find(shown, point->trial.id, [](const auto* p) { return p->trial.id; }) == shown.end())
      shown.push_back(point);
  };
  add(find_point(summary, summary.selected));
  for (const auto& id : summary.top) add(find_point(summary, id));
  add(&summary.fully_quantized);
  std::erase_if(shown, [&](const auto* point) { return point->trial.id == summary.baseline.trial.id; });
  return shown;
}

// "1 to 4" of the first group of four.
std::string positions(size_t group, int64_t width) {
  const int64_t first = static_cast<int64_t>(group) * width + 1;
  return width == 1 ? fmt::format("{}", first) : fmt::format("{} to {}", first, first + width - 1);
}

}  // namespace

std::string rows_section(const Summary& summary) {
  const auto shown = shown_points(summary);
  // Pixels are no positions that a reader could look up.
  if (shown.empty() || task_of_study(summary.task).answers != Task{}.answers ||
      !has_classes(*shown[0]->trial.measurement, loss_name(summary)))
    return "";
  std::string heads, rows;
  const auto head = [&](const std::string& name) { heads += fmt::format("<th scope=\"col\">{}</th>", text(name)); };
  const auto cell = [](double loss) { return fmt::format("<td>{}</td>", format_figure(loss)); };
  for (const char* name : {"candidate", "mean", "99 %", "99.9 %", "largest"}) head(name);
  const RowLosses& first = *shown[0]->trial.measurement->kl_rows;
  for (size_t group = 0; group < first.by_position.size(); ++group) head(positions(group, first.width));
  for (const SummaryPoint* point : shown) {
    const Measurement& m = *point->trial.measurement;
    std::string cells = fmt::format("<th scope=\"row\">{}</th>", text(point->name)) + cell(m.losses.kl) +
                        cell(m.kl_rows->q99) + cell(m.kl_rows->q999) + cell(m.kl_rows->largest);
    for (const double loss : m.kl_rows->by_position) cells += cell(loss);
    rows += fmt::format("<tr>{}</tr>\n", cells);
  }
  return fmt::format(
      "<section class=\"long\"><h2>Loss by position</h2>\n<p class=\"hint\">KL of each position's scores from the "
      "float model's: its mean, its quantiles over all positions of all samples, and its mean at these "
      "positions.</p>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Loss by position\"><table "
      "id=\"positions\"><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div></section>\n",
      heads, rows);
}

}  // namespace seqto::internal
