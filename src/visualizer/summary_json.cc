// summary.json: numbers stay numbers, what was not measured is null.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "metrics/latency_json.h"
#include "metrics/loss/loss_fields.h"
#include "seqto/report.h"
#include "visualizer/points.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

// Options and environment come as JSON text; what is none is kept as a string rather than lost.
Json parsed(const std::string& text) {
  if (text.empty()) return Json::object();
  auto value = internal::parse_json_if_any<Json>(text);
  return value.is_discarded() ? Json(text) : value;
}

Json schemes_json(const Summary& summary, const Plan& plan, Json& layers) {
  Json counts = Json::object();
  layers = Json::array();
  for (const auto& layer : summary.layers) {
    if (!internal::takes_codes(layer)) continue;
    const DetailedScheme detailed = detailed_scheme(plan, layer.id);
    Json entry{{"name", layer.id}, {"scheme", to_string(detailed.scheme)}};
    entry.update(internal::parse_json<Json>(layer_options_to_json(detailed.fields)));
    layers.push_back(std::move(entry));
    const std::string name = to_string(detailed);
    counts[name] = counts.value(name, 0) + 1;
  }
  return counts;
}

Json rows_json(const RowLosses& rows) {
  return {{"q99", rows.q99},
          {"q999", rows.q999},
          {"max", rows.largest},
          {"width", rows.width},
          {"by_position", rows.by_position}};
}

Json changed_json(const ChangedTokens& tokens) {
  Json json{{"samples", tokens.samples}, {"changed", tokens.changed}, {"examples", Json::array()}};
  for (const ChangedToken& t : tokens.examples)
    json["examples"].push_back({{"sample", t.sample},
                                {"position", t.position},
                                {"before", t.before},
                                {"reference", t.reference},
                                {"candidate", t.candidate},
                                {"reference_share", t.reference_share},
                                {"candidate_share", t.candidate_share}});
  return json;
}

Json point_json(const Summary& summary, const SummaryPoint& point) {
  Json json{{"id", point.trial.id},
            {"name", point.name},
            {"file", text_or_null(point.file)},
            {"plan", text_or_null(point.plan_file)}};
  for (const auto* name : {"size_bytes", "size_reduction_kept", "latency_ns", "losses", "metrics"})
    json[name] = nullptr;
  if (const auto& measured = point.trial.measurement) {
    json["size_bytes"] = measured->size_bytes;
    json["size_reduction_kept"] = point.size_reduction_kept;
    if (measured->latency.median_ns > 0) json["latency_ns"] = internal::latency_to_json(measured->latency);
    if (measured->decode_latency) json["decode_latency_ns"] = internal::latency_to_json(*measured->decode_latency);
    json["losses"] = Json::object();
    for (const auto& field : kLossFields) json["losses"][std::string(field.name)] = measured->losses.*field.value;
    if (measured->kl_rows) json["kl_rows"] = rows_json(*measured->kl_rows);
    if (const auto& worst = measured->worst_output)
      json["worst_output"] = {{"name", worst->name}, {"nmse", worst->nmse}, {"outputs", worst->outputs}};
    json["metrics"] = measured->metrics;
    if (!measured->lower_is_better.empty()) json["lower_is_better"] = measured->lower_is_better;
  } else {
    json["failure"] = point.trial.failure;
  }
  if (!point.alike.empty()) json["alike"] = point.alike;
  if (point.mcnemar) json["mcnemar"] = *point.mcnemar;
  for (const auto& [name, drop] : point.drops) {
    json["drops"][name] = {{"value", drop.value}, {"interval", nullptr}};
    if (drop.interval) json["drops"][name]["interval"] = {drop.interval->low, drop.interval->high};
  }
  json["intervals"] = Json::object();
  if (point.trial.measurement)
    for (const auto& [name, interval] : point.trial.measurement->intervals)
      json["intervals"][name] = {interval.low, interval.high};
  Json layers;
  json["schemes"] = schemes_json(summary, point.trial.plan, layers);
  json["layers"] = std::move(layers);
  return json;
}

Json placement_json(const std::vector<NodePlacement>& placement) {
  Json counts = Json::object();
  for (const NodePlacement& node : placement) counts[node.provider] = counts.value(node.provider, 0) + 1;
  return counts;
}

void write_front(Json& json, const Summary& summary) {
  json["baseline"] = point_json(summary, summary.baseline);
  json["fully_quantized"] = point_json(summary, summary.fully_quantized);
  json["front"] = Json::array();
  for (const auto& point : summary.front) json["front"].push_back(point_json(summary, point));
  json["others"] = Json::array();  // what DIR:NAME may mean beside these
  for (const SummaryPoint* point : internal::points(summary)) {
    const std::string& id = point->trial.id;
    const bool listed =
        id == summary.baseline.trial.id || id == summary.fully_quantized.trial.id || internal::on_front(summary, id);
    if (!listed && !point->file.empty()) json["others"].push_back(point_json(summary, *point));
  }
  json["top"] = summary.top;
  json["selected"] = text_or_null(summary.selected);
  json["selected_file"] = text_or_null(summary.selected_file);
  json["answer"] = answer(summary);
  json["hypervolume"] = summary.hypervolume;
  if (!summary.limits.empty()) {
    json["limits"] = Json::array();
    for (const CheckedLimit& c : summary.limits)
      json["limits"].push_back({{"figure", c.limit.figure},
                                {c.limit.at_most ? "at_most" : "at_least", c.limit.bound},
                                {"found", c.found.value},
                                {"met", c.met}});
  }
  if (!summary.placement.empty()) json["placement"] = placement_json(summary.placement);
}

}  // namespace

std::string summary_to_json(const Summary& summary) {
  const auto& header = summary.header;
  Json json;
  json["answer"] = answer(summary);  // what a reader sees first
  json["schema_version"] = 1;
  json["model"] = {
      {"path", header.model_path}, {"sha256", header.model_sha256}, {"size_bytes", header.model_size_bytes}};
  json["options"] = parsed(header.options_json);
  json["environment"] = parsed(header.environment_json);
  json["samples"] = {{"calibration", header.calibration_samples},
                     {"search", header.search_samples},
                     {"evaluation", header.evaluation_samples}};
  if (!summary.task.empty()) json["task"] = summary.task;
  json["objectives"] = summary.objectives;
  json["device"] = summary.device;
  write_front(json, summary);
  json["elsewhere"] = Json::object();
  for (const auto& device : summary.elsewhere)
    write_front(json["elsewhere"][device.device], internal::on_device(summary, device));
  if (summary.changed_tokens) json["changed_tokens"] = changed_json(*summary.changed_tokens);
  json["evaluations"] = summary.evaluations;
  json["wall_seconds"] = summary.wall_seconds;
  json["notes"] = summary.notes;
  // Names of a model may hold bytes that are not UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace seqto
