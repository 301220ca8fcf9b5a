#include "visualizer/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "metrics/loss/loss_fields.h"
#include "visualizer/format.h"
#include "visualizer/layer_data.h"
#include "visualizer/points.h"
#include "visualizer/table_rows.h"

namespace seqto::internal {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

// Figures with a `_text` beside them are drawn from the figure and told by the text: units are made in format.cc alone.
Json point_data(const Summary& summary, const SummaryPoint& point, const std::string& loss) {
  const Trial& trial = point.trial;
  Json json{{"id", trial.id},
            {"name", point.name.empty() ? trial.id : point.name},
            {"number", trial.number},
            {"excluded", trial.excluded.size()},
            {"float_layers", float_layers(summary, trial.plan)},
            {"front", on_front(summary, trial.id)},
            {"outline", std::ranges::find(summary.outline, trial.id) != summary.outline.end()},
            {"rank", rank(summary, trial.id)},
            {"selected", trial.id == summary.selected},
            {"kind", trial.id == summary.baseline.trial.id          ? "float"
                     : trial.id == summary.fully_quantized.trial.id ? "full"
                                                                    : "trial"}};
  if (!trial.measurement) {
    json["failure"] = trial.failure;
    return json;
  }
  const auto& measured = *trial.measurement;
  json["size"] = measured.size_bytes;
  json["size_text"] = format_bytes(measured.size_bytes);
  if (tells_kept(summary)) json["kept_text"] = format_percent(point.size_reduction_kept);
  json["loss"] = loss_of(point, loss);
  json["latency"] = measured.latency.median_ns;
  json["latency_text"] = measured.latency.median_ns > 0 ? format_duration(measured.latency.median_ns) : "not measured";
  if (measured.latency.p90_ns > 0) json["latency_ends"] = {measured.latency.p10_ns, measured.latency.p90_ns};
  if (measured.decode_latency) json["decode_text"] = format_duration(measured.decode_latency->median_ns);
  json["ruined"] = is_ruined(point, loss);
  json["losses"] = Json::object();
  for (const auto& field : kLossFields) json["losses"][std::string(field.name)] = measured.losses.*field.value;
  json["metrics"] = measured.metrics;
  json["intervals"] = Json::object();
  for (const auto& [name, interval] : measured.intervals) json["intervals"][name] = {interval.low, interval.high};
  if (!point.alike.empty()) json["alike"] = point.alike;
  if (point.mcnemar) json["mcnemar"] = format_figure(*point.mcnemar);
  return json;
}

// The axis counts in the unit that the largest size has.
Json size_unit(int64_t most_bytes) {
  const auto text = format_bytes(most_bytes);
  const auto unit = text.substr(text.find(' ') + 1);
  const double bytes = unit == "B" ? 1 : unit == "kB" ? 1e3 : unit == "MB" ? 1e6 : unit == "GB" ? 1e9 : 1e12;
  return {{"name", unit}, {"bytes", bytes}};
}

namespace {

int64_t largest(const Summary& summary) {
  int64_t most = summary.header.model_size_bytes;
  for (const auto* point : points(summary)) {
    if (point->trial.measurement) most = std::max(most, point->trial.measurement->size_bytes);
  }
  return most;
}

// The points of the front as each device has measured them; they know their device by its position.
Json devices_data(const Summary& summary, const std::string& loss) {
  Json names = Json::array(), points = Json::array();
  const auto add = [&](const DeviceFront& device) {
    const Summary seen = on_device(summary, device);
    for (const SummaryPoint* point : internal::points(seen)) {
      if (!point->trial.measurement || point->trial.measurement->latency.median_ns <= 0) continue;
      points.push_back(point_data(seen, *point, loss));
      points.back()["study"] = names.size();
    }
    names.push_back(device.device);
  };
  add(summary);
  for (const DeviceFront& device : summary.elsewhere) add(device);
  return {{"names", std::move(names)}, {"points", std::move(points)}};
}

// Groups with their choices, and which of them the points of the front take.
Json what_if_data(const Summary& summary) {
  const WhatIf& what_if = *summary.what_if;
  Json json = parse_json<Json>(what_if_to_json(what_if));
  for (const SummaryPoint& point : summary.front) {
    Json choices = Json::array();
    for (const WhatIf::Group& group : what_if.groups) {
      const auto taken = std::ranges::find_if(group.choices, [&](const WhatIf::Choice& choice) {
        return std::ranges::all_of(group.layers, [&](const LayerId& layer) {
          const DetailedScheme taken_for_it = detailed_scheme(point.trial.plan, layer);
          return taken_for_it == (choice.plan.schemes.contains(layer) ? choice.scheme : DetailedScheme());
        });
      });
      choices.push_back(taken == group.choices.end() ? 0 : taken - group.choices.begin());
    }
    json["plans"][point.trial.id] = std::move(choices);
  }
  return json;
}

}  // namespace

std::vector<std::string> plot_names(const Summary& summary) {
  std::vector<std::string> names{"front"};
  const auto timed = [](const SummaryPoint& p) {
    return p.trial.measurement && p.trial.measurement->latency.median_ns > 0;
  };
  if (std::ranges::find(summary.objectives, "latency") != summary.objectives.end() &&
      std::ranges::any_of(summary.front, timed))
    names.emplace_back("latency");
  if (summary.what_if && !summary.what_if->groups.empty()) names.emplace_back("layer_losses");
  if (!summary.sensitivity.activations.empty() || !summary.sensitivity.weights.empty())
    names.emplace_back("sensitivity");
  // Strategies that search follow no list: their candidates have no order to be drawn in.
  if (!summary.what_if && !summary.trials.empty()) names.emplace_back("exclusion");
  if (!summary.elsewhere.empty()) names.emplace_back("devices");
  return names;
}

std::string report_data_json(const Summary& summary) {
  const auto loss = loss_name(summary);
  Json data{{"model", model_name(summary)}, {"loss", loss_label(loss)}, {"unit", size_unit(largest(summary))}};
  data["timed"] = std::ranges::find(summary.objectives, "latency") != summary.objectives.end();
  data["points"] = Json::array();
  for (const auto* point : points(summary)) data["points"].push_back(point_data(summary, *point, loss));
  data["activations"] = Json::array();
  for (const auto& error : summary.sensitivity.activations) {
    data["activations"].push_back({{"tensor", error.tensor},
                                   {"qdq_err", error.qdq_err},
                                   {"xmodel_err", error.xmodel_err},
                                   {"score", error.score}});
  }
  data["weights"] = Json::array();
  for (const auto& error : summary.sensitivity.weights) {
    data["weights"].push_back({{"tensor", error.tensor}, {"sqnr", error.sqnr}});
  }

  if (!summary.elsewhere.empty()) data["devices"] = devices_data(summary, loss);
  if (auto view = layer_view_data(summary); !view.is_null()) data["view"] = std::move(view);
  if (summary.what_if) data["what_if"] = what_if_data(summary);

  return safe_dump(data);
}

std::string safe_dump(const Json& data) {
  std::string safe;
  for (const char c : data.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&') safe += fmt::format("\\u{:04x}", c);  // in JSON inside strings only
    else safe += c;
  }
  return safe;
}

}  // namespace seqto::internal
