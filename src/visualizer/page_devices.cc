// The devices of a study beside each other, and who computes what on them.
#include <fmt/format.h>

#include <map>

#include "visualizer/format.h"
#include "visualizer/html.h"
#include "visualizer/page_sections.h"
#include "visualizer/points.h"

namespace seqto::internal {
namespace {

std::string device_row(const Summary& summary, const DeviceFront& device) {
  const auto loss = loss_name(summary);
  const auto point_cells = [&](const SummaryPoint* point) {
    if (!measured(point)) return empty_cell() + empty_cell();
    const auto& m = *point->trial.measurement;
    const double value = loss_of(*point, loss);
    return cell(value, format_figure(value)) +
           cell(static_cast<double>(m.latency.median_ns), format_duration(m.latency.median_ns));
  };
  const Summary seen = on_device(summary, device);
  const auto* selected = find_point(seen, device.selected);
  const auto nanoseconds = measured(&device.baseline) ? device.baseline.trial.measurement->latency.median_ns : 0;
  return fmt::format("<tr><td>{}</td>{}{}<td><code>{}</code></td>{}{}{}</tr>\n", text(device.device),
                     cell(static_cast<double>(nanoseconds), format_duration(nanoseconds)),
                     point_cells(&device.fully_quantized), text(device.selected),
                     measured(selected) ? cell(static_cast<double>(selected->trial.measurement->size_bytes),
                                               format_bytes(selected->trial.measurement->size_bytes))
                                        : empty_cell(),
                     point_cells(selected),
                     cell(static_cast<double>(device.front.size()), fmt::to_string(device.front.size())));
}

std::string choices_table(const Summary& summary) {
  const auto layers = where_choices_differ(summary);
  if (layers.empty()) return "<p class=\"hint\">The same layers are chosen on every device.</p>\n";
  std::vector<const DeviceFront*> devices{&summary};
  for (const auto& device : summary.elsewhere) devices.push_back(&device);
  std::vector<std::string> names{"layer"};
  for (const auto* device : devices) names.push_back(device->device);
  std::string rows;
  for (const auto& layer : layers) {
    rows += fmt::format("<tr><td><code>{}</code></td>", text(layer));
    for (const auto* device : devices) {
      const auto* point = find_point(summary, device->selected);
      rows +=
          fmt::format("<td class=\"text\">{}</td>", point ? to_string(detailed_scheme(point->trial.plan, layer)) : "–");
    }
    rows += "</tr>\n";
  }
  return fmt::format(
      "<h3>Where the choice differs</h3>\n<div class=\"wide\"><table class=\"sortable\" "
      "id=\"choices\">{}<tbody>\n{}</tbody></table></div>\n",
      heads(names), rows);
}

}  // namespace

std::string devices_section(const Summary& summary) {
  if (summary.elsewhere.empty()) return "";
  const auto loss = loss_name(summary);
  std::string rows = device_row(summary, summary);
  for (const auto& device : summary.elsewhere) rows += device_row(summary, device);
  return plot_section("devices", "The front on each device",
                      fmt::format("Loss ({}) against latency of the same files. Down and left is better.",
                                  text(loss_label(loss)))) +
         fmt::format(
             "<section class=\"long\"><h2>Devices</h2>\n<p class=\"hint\">The same candidates on each device; losses "
             "are against the float model there.</p>\n<div class=\"wide\"><table class=\"sortable\" "
             "id=\"devices-table\">{}<tbody>\n{}</tbody></table></div>\n",
             heads({"device", "float", "full: " + loss, "full: latency", "selected", "size", loss, "latency",
                    "on the front"}),
             rows) +
         choices_table(summary) + "</section>\n";
}

namespace {

// Which part of a device runs which node of the fully quantized model.
std::string placement_section(const DeviceFront& device) {
  if (device.placement.empty()) return "";
  std::map<std::string, int> counts;
  std::string rows, words;
  for (const NodePlacement& n : device.placement) {
    ++counts[n.provider];
    rows += fmt::format("<tr><td><code>{}</code></td><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>\n",
                        text(n.node), text(n.op_type), text(n.provider));
  }
  for (const auto& [provider, count] : counts)
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", count, text(provider));
  return fmt::format(
      "<section class=\"long\"><details><summary>Nodes of the fully quantized model on {}: {}</summary>\n<div "
      "class=\"wide\"><table class=\"sortable\">{}<tbody>\n{}</tbody></table></div></details></section>\n",
      text(device.device), words, heads({"node", "operator", "provider"}), rows);
}

}  // namespace

std::string placements_section(const Summary& summary) {
  std::string sections = placement_section(summary);
  for (const auto& device : summary.elsewhere) sections += placement_section(device);
  return sections;
}

}  // namespace seqto::internal
