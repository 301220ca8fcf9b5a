// The layers of the model: the view of one at a time, and the table of all.
#include <fmt/format.h>

#include <unordered_map>

#include "visualizer/format.h"
#include "visualizer/html.h"
#include "visualizer/page_sections.h"
#include "visualizer/points.h"

namespace seqto::internal {

// Empty frames: without scripts the table below has to do.
std::string layer_view_section(const Summary& summary) {
  if (summary.wiring.empty()) return "";
  return fmt::format(
      "<section class=\"long\" id=\"model\" hidden><h2>The model, layer by layer</h2>\n"
      "<p class=\"controls\"><label>Candidate <select id=\"model-candidate\"></select></label> <button "
      "id=\"graph-in\" aria-label=\"Zoom in\">+</button><button id=\"graph-out\" aria-label=\"Zoom "
      "out\">−</button><button "
      "id=\"graph-fit\">Whole model</button><button id=\"graph-here\">Chosen layer</button></p>\n"
      "<div class=\"sides\"><div><div id=\"graph\" role=\"group\" aria-label=\"The model as a graph\" "
      "aria-describedby=\"graph-help\"></div>\n"
      "<ul id=\"graph-legend\" aria-label=\"Layers by scheme\"></ul>\n"
      "<p class=\"hint\" id=\"graph-help\">Select a layer to see its tensors. Drag to move, Ctrl and the wheel to "
      "zoom. "
      "On the "
      "keyboard: arrows walk along the model, Enter opens a layer, + and − zoom, 0 shows all.</p></div>\n"
      "<div id=\"layer\"><p class=\"controls\"><label>Layer <select id=\"layer-choice\"></select></label> "
      "<button id=\"layer-before\">Previous</button> <button id=\"layer-after\">Next</button></p>\n"
      "<h3 id=\"layer-name\" tabindex=\"-1\"></h3>\n<p id=\"layer-scheme\" role=\"status\"></p>\n"
      "<table class=\"facts\" id=\"layer-facts\"><tbody></tbody></table>\n"
      "<p class=\"hint\" id=\"tensors-hint\">Its tensors in the float model{}. Held: what their types in the fully "
      "quantized model can hold. Errors in dB, more is better.</p>\n<div class=\"wide\"><table id=\"layer-tensors\" "
      "aria-describedby=\"tensors-hint\"><thead><tr><th scope=\"col\">tensor"
      "</th><th scope=\"col\">role</th><th scope=\"col\">values</th><th scope=\"col\">held</th><th "
      "scope=\"col\">error</th></tr></thead><tbody></tbody></table></div>\n"
      "<div id=\"layer-plots\"></div></div></div></section>\n",
      summary.value_samples > 0 ? fmt::format(", on {} calibration samples", summary.value_samples) : "");
}

std::string layers_table(const Summary& summary) {
  if (summary.layers.empty()) return "";
  const auto* selected = find_point(summary, summary.selected);
  std::unordered_map<std::string, const LayerReport*> reports;
  if (const auto found = summary.explained.find(summary.selected); found != summary.explained.end())
    for (const LayerReport& report : found->second) reports[report.name] = &report;
  std::string rows;
  for (const auto& layer : summary.layers) {
    const DetailedScheme asked =
        takes_codes(layer) && selected ? detailed_scheme(selected->trial.plan, layer.id) : DetailedScheme();
    std::string scheme = to_string(asked);
    std::string why = takes_codes(layer) ? "" : layer.reason;
    if (const auto known = reports.find(layer.id); known != reports.end()) {
      if (known->second->scheme != to_string(asked.scheme)) scheme = known->second->scheme;
      why = known->second->reason;
    }
    rows += fmt::format(
        "<tr><td><code>{0}</code></td><td class=\"text\">{1}</td><td>{2}</td>{3}<td>{4}</td><td "
        "class=\"reason\">{5}</td></tr>\n",
        text(layer.id), text(layer.op_type), format_shape(layer.output_shape, " × "),
        cell(static_cast<double>(layer.weight_bytes), format_bytes(layer.weight_bytes)), text(scheme), text(why));
  }
  return fmt::format(
      "<section class=\"long\"><details><summary>{} layers and their scheme in the selected candidate</summary>\n"
      "<div class=\"wide\"><table class=\"sortable\" "
      "id=\"layers\">{}<tbody>\n{}</tbody></table></div></details></section>\n",
      summary.layers.size(), heads({"layer", "operator", "output", "weights", "scheme", "why"}), rows);
}

std::string errors_table(const Summary& summary) {
  const auto& [activations, weights] = summary.sensitivity;
  if (activations.empty() && weights.empty()) return "";
  const auto decibels = [](double value) { return cell(value, format_figure(value)); };
  std::string rows;
  for (const ActivationError& e : activations)
    rows += fmt::format("<tr><td><code>{}</code></td>{}{}{}{}</tr>\n", text(e.tensor), decibels(e.qdq_err),
                        decibels(e.xmodel_err), decibels(e.score), empty_cell());
  for (const WeightError& e : weights)
    rows += fmt::format("<tr><td><code>{}</code></td>{}{}{}{}</tr>\n", text(e.tensor), empty_cell(), empty_cell(),
                        empty_cell(), decibels(e.sqnr));
  return fmt::format(
      "<section class=\"long\"><details><summary>Errors of {} tensors as a table</summary>\n<div class=\"wide\"><table "
      "class=\"sortable\" id=\"errors\">{}<tbody>\n{}</tbody></table></div></details></section>\n",
      activations.size() + weights.size(), heads({"tensor", "qdq_err", "xmodel_err", "score", "weight SQNR"}), rows);
}

}  // namespace seqto::internal
