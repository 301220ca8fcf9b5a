#include "visualizer/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "visualizer/assets.h"
#include "visualizer/echarts_js.h"
#include "visualizer/format.h"
#include "visualizer/html.h"
#include "visualizer/page_sections.h"
#include "visualizer/points.h"
#include "visualizer/report_data.h"

namespace seqto::internal {
namespace {

// 11229 is 11000.
double two_digits(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return std::round(value / unit) * unit;
}

// ", 97.3 % lower than ort-int8": the selected loss beside that of the fully quantized model.
std::string comparison(double loss, const SummaryPoint& reference, double other) {
  if (!(other > 0) || std::isnan(loss) || loss == other) return "";
  const double lower = 1 - loss / other;
  // Nearer to none than a percentage with one place tells.
  if (loss > 0 && lower > 0.995)
    return fmt::format(", {:.0f} x lower than {}", two_digits(other / loss), text(reference.name));
  return fmt::format(", {} {} than {}", format_percent(std::abs(lower)), lower < 0 ? "higher" : "lower",
                     text(reference.name));
}

// What the sentence above leaves open: of how many, and at what loss.
std::string lead(const Summary& summary) {
  const auto loss = loss_name(summary);
  std::string words = fmt::format("{} candidates were measured", summary.evaluations);
  if (summary.wall_seconds > 0)
    words += fmt::format(" in {}", format_duration(std::llround(summary.wall_seconds * 1e9)));
  words += ". ";
  if (const Trial& full = summary.fully_quantized.trial; !full.measurement)
    words += fmt::format("The fully quantized model failed: {}. ", text(full.failure));
  const auto* selected = find_point(summary, summary.selected);
  if (!measured(selected)) return words + "No candidate was selected.";
  const double value = loss_of(*selected, loss);
  if (!std::isnan(value))
    words += fmt::format("Candidate {} has a {} of {}{}. ", text(selected->name), text(loss_label(loss)),
                         format_figure(value),
                         comparison(value, summary.fully_quantized, loss_of(summary.fully_quantized, loss)));
  return words;
}

// The rows are made by what_if.js: without scripts there is nothing to try.
std::string what_if_section(const Summary& summary) {
  if (!summary.what_if) return "";
  return fmt::format(
      "<section class=\"long\" id=\"whatif\" hidden><h2>What if</h2>\n<p class=\"hint\">Choose a scheme for each of "
      "the {} groups of layers. The figures are expected, not measured: what the search learned of each group, added "
      "up. Take the plan to <code>seqto quantize --plan</code>, with the data where weights are learned, and measure "
      "it.</p>\n"
      "<p class=\"controls\"><label>Start from <select id=\"whatif-start\"></select></label> "
      "<button id=\"whatif-save\">Download the plan</button></p>\n"
      "<p id=\"whatif-figures\" role=\"status\" class=\"lead\"></p>\n"
      "<div class=\"wide tall\" tabindex=\"0\" role=\"region\" aria-label=\"Groups and their schemes\"><table "
      "id=\"whatif-groups\"><thead><tr><th scope=\"col\">group</th><th "
      "scope=\"col\">scheme</th><th scope=\"col\">{} more</th><th scope=\"col\">saved</th><th scope=\"col\">time "
      "saved</th></tr></thead><tbody></tbody></table></div></section>\n",
      summary.what_if->groups.size(), text(summary.what_if->loss));
}

std::string row(const std::string& name, const std::string& value) {
  return fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", text(name), text(value));
}

// A JSON object as rows; nested values as JSON.
std::string facts(const std::string& json) {
  const auto value = parse_json_if_any<nlohmann::ordered_json>(json.empty() ? "{}" : json);
  if (!value.is_object()) return row("", json);
  std::string rows;
  for (const auto& [key, item] : value.items()) {
    rows += row(key, item.is_string() ? item.get<std::string>()
                                      : item.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
  return rows;
}

std::string provenance(const Summary& summary) {
  const auto& header = summary.header;
  const std::string model =
      row("model", header.model_path) + row("SHA-256", header.model_sha256) + row("data", header.data_fingerprint) +
      row("samples", fmt::format("{} calibration, {} search, {} evaluation", header.calibration_samples,
                                 header.search_samples, header.evaluation_samples)) +
      (summary.task.empty() ? "" : row("task", summary.task)) +
      row("objectives", fmt::format("{}", fmt::join(summary.objectives, ", "))) +
      row("hypervolume", format_figure(summary.hypervolume));
  std::string notes;
  for (const auto& note : summary.notes) notes += "<li>" + text(note) + "</li>\n";
  if (!notes.empty()) notes = "<section><h2>Notes</h2>\n<ul>" + notes + "</ul></section>\n";
  std::string options = facts(header.options_json);
  if (!options.empty())
    options = "<section class=\"long\"><details><summary>Options</summary>\n<table class=\"facts\">" + options +
              "</table></details></section>\n";
  return notes + "<section><h2>Study and environment</h2>\n<table class=\"facts\">" + model +
         facts(header.environment_json) + "</table></section>\n" + options;
}

}  // namespace

std::string render_page(const Summary& summary, const std::string& data_json) {
  const auto loss = text(loss_label(loss_name(summary)));
  const auto plots = plot_names(summary);
  const auto has = [&](const char* plot) { return std::ranges::find(plots, plot) != plots.end(); };
  std::string page = page_head(model_name(summary) + " · seqto") + colours_switch();
  page += fmt::format("<h1>{}</h1>\n<p class=\"path\">{} · {} · seqto</p>\n", text(model_name(summary)),
                      text(summary.header.model_path), format_bytes(summary.header.model_size_bytes));
  if (const std::string sentence = answer(summary); !sentence.empty())
    page += fmt::format("<p id=\"answer\">{}</p>\n", text(sentence));
  page += fmt::format("<p class=\"lead\">{}</p>\n", lead(summary));
  if (has_random_data(summary))
    page += "<p class=\"lead\">The inputs are random numbers: sizes and latencies mean something, losses do not.</p>\n";
  page += plot_section("front", "The front",
                       fmt::format("Loss ({}) against size. Down and left is better; the line is what can be had at "
                                   "each size. Select a point for its figures.",
                                   loss),
                       "<div id=\"one-point\" hidden><p class=\"controls\"><label>Candidate <select "
                       "id=\"point-choice\"></select></label></p>\n<div id=\"point\" role=\"status\"></div></div>\n");
  page += chosen_section(summary);
  page += rows_section(summary) + tokens_section(summary);
  if (has("exclusion"))
    page += plot_section("exclusion", "From fully quantized towards float",
                         fmt::format("Loss ({}) and size of the candidates as more is left in float. Upright lines: "
                                     "candidates on the front.",
                                     loss));
  if (has("latency"))
    page += plot_section("latency", "Loss against latency",
                         fmt::format("Loss ({}) against the time of one sample, of what was timed in turn; bars from "
                                     "p10 to p90. Down and left is better.",
                                     loss));
  if (has("layer_losses"))
    page += plot_section("layer_losses", "Loss by layer",
                         fmt::format("{} that a group of layers adds when it alone is quantized; the colour is its "
                                     "scheme in the selected candidate. + 2: with two more layers. At most 20, the "
                                     "largest.",
                                     text(summary.what_if->loss)));
  page += layer_view_section(summary) + layers_table(summary) + devices_section(summary) + what_if_section(summary) +
          trials_table(summary);
  if (has("sensitivity"))
    page += plot_section("sensitivity", "Errors of the tensors",
                         "In the published order: activations by score, then weights. qdq_err: a tensor before and "
                         "after its own rounding; xmodel_err: the float model&#39;s tensor and the quantized "
                         "model&#39;s.");
  page += errors_table(summary);
  page += placements_section(summary) + provenance(summary);
  page += "</main>\n<script type=\"application/json\" id=\"data\">" + data_json + "</script>\n";
  return page + script(echarts_js()) + script(plots_js()) + script(page_js()) +
         (summary.wiring.empty() ? "" : script(layer_view_js()) + script(dagre_js()) + script(graph_view_js())) +
         (summary.what_if ? script(what_if_js()) : "") + "</body>\n</html>\n";
}

}  // namespace seqto::internal
