#include "visualizer/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "metrics/loss_fields.h"
#include "visualizer/assets.h"
#include "visualizer/echarts_js.h"
#include "visualizer/format.h"
#include "visualizer/html.h"
#include "visualizer/page_sections.h"
#include "visualizer/points.h"

namespace seqto::internal {
namespace {

std::string size_of(const SummaryPoint& point) { return format_bytes(point.trial.measurement->size_bytes); }

std::string loss_words(const SummaryPoint& point, const std::string& loss) {
  const double value = loss_of(point, loss);
  return std::isnan(value) ? "no " + loss : loss_label(loss) + " " + format_figure(value);
}

// "97.3 % lower": the selected loss beside that of the fully quantized model.
std::string comparison(double loss, double reference) {
  if (!(reference > 0) || std::isnan(loss)) return "";
  const double lower = 1 - loss / reference;
  return fmt::format(", {} {} than fully quantized", format_percent(std::abs(lower)), lower < 0 ? "higher" : "lower");
}

std::string lead(const Summary& summary) {
  const auto loss = loss_name(summary);
  const auto count =
      std::count_if(summary.layers.begin(), summary.layers.end(), [](const Layer& l) { return l.quantizable; });
  std::string words =
      fmt::format("{} candidates of <b>{}</b> were measured", summary.evaluations, text(model_name(summary)));
  if (summary.wall_seconds > 0)
    words += fmt::format(" in {}", format_duration(std::llround(summary.wall_seconds * 1e9)));
  words += ". ";
  if (measured(&summary.baseline)) words += fmt::format("The float model takes {}. ", size_of(summary.baseline));
  if (measured(&summary.fully_quantized)) {
    words +=
        fmt::format("With all {}layers quantized it takes {}, {}", count ? fmt::format("{} quantizable ", count) : "",
                    size_of(summary.fully_quantized), text(loss_words(summary.fully_quantized, loss)));
    const double changed = summary.fully_quantized.trial.measurement->losses.top1_disagreement;
    if (!std::isnan(changed) && has_classes(*summary.fully_quantized.trial.measurement, loss))
      words += fmt::format(", and {} of the inputs get another first class", format_percent(changed));
    words += ". ";
  } else if (!summary.fully_quantized.trial.failure.empty()) {
    words += fmt::format("The fully quantized model failed: {}. ", text(summary.fully_quantized.trial.failure));
  }
  const auto* selected = find_point(summary, summary.selected);
  if (!measured(selected)) return words + "No candidate was selected.";
  const auto floats = float_layers(summary, selected->trial.plan);
  words += fmt::format("The selected candidate <code>{}</code> takes {} ({} of the size reduction kept), {}{}",
                       text(selected->trial.id), size_of(*selected), format_percent(selected->size_reduction_kept),
                       text(loss_words(*selected, loss)),
                       comparison(loss_of(*selected, loss), loss_of(summary.fully_quantized, loss)));
  if (selected->trial.measurement->latency.median_ns > 0) {
    words += fmt::format(", {} a sample", format_duration(selected->trial.measurement->latency.median_ns));
  }
  return words + (floats >= 0 ? fmt::format("; {} of its layers stay in float.", floats) : ".");
}

std::string tile(const SummaryPoint* point, const std::string& name, const std::string& loss, const char* more = "") {
  if (!measured(point)) return "";
  const auto& trial = point->trial;
  std::string hints = text(loss_words(*point, loss));
  if (!std::isnan(trial.measurement->losses.top1_disagreement) && has_classes(*trial.measurement, loss))
    hints += fmt::format("<br>{} other first class", format_percent(trial.measurement->losses.top1_disagreement));
  if (trial.measurement->latency.median_ns > 0)
    hints += "<br>" + format_duration(trial.measurement->latency.median_ns) + " a sample";
  return fmt::format(
      "<div class=\"tile{}\"><span class=\"name\">{}</span><b>{}</b><span class=\"hint\">{}</span></div>\n", more, name,
      size_of(*point), hints);
}

std::string tiles(const Summary& summary) {
  const auto loss = loss_name(summary);
  return "<div class=\"tiles\">\n" + tile(&summary.baseline, "Float", loss) +
         tile(&summary.fully_quantized, "Fully quantized", loss) +
         tile(find_point(summary, summary.selected), "Selected", loss, " selected") + "</div>\n";
}

std::string trial_row(const Summary& summary, const SummaryPoint& point, const std::vector<std::string>& metrics,
                      bool outcomes) {
  const auto& trial = point.trial;
  std::string name = fmt::format("<code>{}</code>", text(trial.id));
  // Our own relative paths; "./" keeps any text from being read as a scheme.
  if (!point.file.empty()) name = fmt::format("<a href=\"./{}\">{}</a>", text(point.file), name);
  if (const int place = rank(summary, trial.id)) name += fmt::format("<span class=\"tag\">top {}</span>", place);
  if (trial.id == summary.selected) name += "<span class=\"tag\">selected</span>";
  std::string row =
      fmt::format("<td>{}</td>", name) + cell(static_cast<double>(trial.number), fmt::to_string(trial.number));

  if (const auto& m = trial.measurement) {
    row += cell(static_cast<double>(m->size_bytes), format_bytes(m->size_bytes));
    row += cell(point.size_reduction_kept, format_percent(point.size_reduction_kept));
    row += m->latency.median_ns > 0
               ? cell(static_cast<double>(m->latency.median_ns), format_duration(m->latency.median_ns))
               : empty_cell();
    for (const auto& field : kLossFields) row += cell(m->losses.*field.value, format_figure(m->losses.*field.value));
    for (const auto& key : metrics) {
      const auto found = m->metrics.find(key);
      row += found == m->metrics.end() ? empty_cell() : cell(found->second, format_figure(found->second));
    }
  } else {
    for (size_t i = 0; i < kLossFields.size() + metrics.size() + 3; ++i) row += empty_cell();
  }
  const auto floats = float_layers(summary, trial.plan);
  row += floats < 0 ? empty_cell() : cell(static_cast<double>(floats), fmt::to_string(floats));
  if (outcomes)
    row += fmt::format("<td class=\"reason\">{}</td>", trial.measurement ? "" : "failed: " + text(trial.failure));
  std::string classes = on_front(summary, trial.id) ? "front" : "";
  if (trial.id == summary.selected) classes += " selected";
  if (!trial.measurement) classes += " failed";
  return fmt::format("<tr class=\"{}\" data-id=\"{}\">{}</tr>\n", classes, text(trial.id), row);
}

std::string trials_table(const Summary& summary) {
  std::vector<std::string> metrics;
  const auto all = points(summary);
  for (const auto* point : all) {
    if (!point->trial.measurement) continue;
    for (const auto& [name, value] : point->trial.measurement->metrics) {
      if (std::find(metrics.begin(), metrics.end(), name) == metrics.end()) metrics.push_back(name);
    }
  }
  std::vector<std::string> names{"candidate", "trial", "size", "kept", "latency"};
  for (const auto& field : kLossFields) names.emplace_back(field.name);
  names.insert(names.end(), metrics.begin(), metrics.end());
  names.emplace_back("float layers");
  const bool outcomes = std::ranges::any_of(all, [](const auto* point) { return !point->trial.measurement; });
  if (outcomes) names.emplace_back("outcome");

  std::string rows;
  for (const auto* point : all) {
    const auto* best = find_point(summary, point->trial.id);
    rows += trial_row(summary, best ? *best : *point, metrics, outcomes);
  }
  return fmt::format(
      "<section class=\"long\"><h2>Candidates</h2>\n<p class=\"hint\">Those with a blue edge are on the front. Select "
      "a heading to sort; select a point of the plot to find it here.</p>\n<div class=\"wide\"><table "
      "class=\"sortable\" "
      "id=\"trials\">{}<tbody>\n{}</tbody></table></div>"
      "</section>\n",
      heads(names), rows);
}

// The rows are made by what_if.js: without scripts there is nothing to try.
std::string what_if_section(const Summary& summary) {
  if (!summary.what_if) return "";
  return fmt::format(
      "<section class=\"long\" id=\"whatif\" hidden><h2>What if</h2>\n<p class=\"hint\">Choose a scheme for each group "
      "of "
      "layers. The figures are expected, not measured: what the search learned of each group, added up. Take the plan "
      "to <code>seqto quantize --plan</code>, with the data where weights are learned, and measure it.</p>\n"
      "<p class=\"controls\"><label>Start from <select id=\"whatif-start\"></select></label> "
      "<button id=\"whatif-save\">Download the plan</button></p>\n"
      "<p id=\"whatif-figures\" role=\"status\" class=\"lead\"></p>\n"
      "<div class=\"wide tall\" tabindex=\"0\" role=\"region\" aria-label=\"Groups and their schemes\"><table "
      "id=\"whatif-groups\"><thead><tr><th scope=\"col\">group</th><th "
      "scope=\"col\">scheme</th><th scope=\"col\">{} more</th><th scope=\"col\">saved</th><th scope=\"col\">time "
      "saved</th></tr></thead><tbody></tbody></table></div></section>\n",
      text(summary.what_if->loss));
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
  std::string page = page_head(model_name(summary) + " · seqto") + colours_switch();
  page += fmt::format("<h1>{}</h1>\n<p class=\"path\">{} · {} · seqto</p>\n", text(model_name(summary)),
                      text(summary.header.model_path), format_bytes(summary.header.model_size_bytes));
  if (const std::string sentence = answer(summary); !sentence.empty())
    page += fmt::format("<p class=\"lead\" id=\"answer\"><b>{}</b></p>\n", text(sentence));
  page += fmt::format("<p class=\"lead\">{}</p>\n", lead(summary));
  if (has_random_data(summary))
    page += "<p class=\"lead\">The inputs are random numbers: sizes and latencies mean something, losses do not.</p>\n";
  page += tiles(summary);
  page +=
      plot_section("front", "The front",
                   fmt::format("Loss ({}) against size of every candidate. Down and left is better; the line is what "
                               "can be had at each size.",
                               loss));
  page +=
      "<section id=\"one-point\" hidden><h2>One candidate</h2>\n<p class=\"controls\"><label>Candidate <select "
      "id=\"point-choice\"></select></label></p>\n<div id=\"point\" role=\"status\"></div></section>\n";
  page += plot_section("sensitivity", "Errors of the tensors",
                       "In the published order: activations by score, then weights. qdq_err: a tensor before and after "
                       "its own rounding; xmodel_err: the float model&#39;s tensor and the quantized model&#39;s.");
  page += errors_table(summary);
  // Strategies that search follow no list.
  if (!summary.what_if) {
    page += plot_section("exclusion", "From fully quantized towards float",
                         fmt::format("Loss ({}) and size of the candidates as more is left in float.", loss));
  }
  page += what_if_section(summary);
  page += devices_section(summary) + trials_table(summary) + layer_view_section(summary) + layers_table(summary) +
          placements_section(summary) + provenance(summary);
  page += "</main>\n<script type=\"application/json\" id=\"data\">" + data_json + "</script>\n";
  return page + script(echarts_js()) + script(plots_js()) + script(page_js()) +
         (summary.wiring.empty() ? "" : script(layer_view_js()) + script(dagre_js()) + script(graph_view_js())) +
         (summary.what_if ? script(what_if_js()) : "") + "</body>\n</html>\n";
}

}  // namespace seqto::internal
