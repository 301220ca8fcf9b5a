#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "metrics/latency_json.h"
#include "metrics/loss/loss_fields.h"
#include "metrics/six_digits.h"
#include "metrics/trial_json.h"
#include "quantization/plan/plan_json.h"
#include "seqto/error.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity, and a failed loss is just that.
Json number_to_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double number_from_json(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  const auto& text = json.get_ref<const std::string&>();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  throw Error(Code::kInvalidInput, "[study] \"" + text + "\" found; a number, \"inf\", \"-inf\" or \"nan\" expected");
}

using Columns = std::map<std::string, std::vector<double>>;

void write_columns(Json& json, const char* key, const Columns& columns) {
  for (const auto& [name, values] : columns) {
    Json& list = json[key][name] = Json::array();
    for (double value : values) list.push_back(number_to_json(six_digits(value)));
  }
}

Columns read_columns(const Json& json, const char* key) {
  Columns columns;
  if (json.contains(key))
    for (const auto& [name, values] : json[key].items())
      for (const Json& value : values) columns[name].push_back(number_from_json(value));
  return columns;
}

void write_rows(Json& json, const RowLosses& rows) {
  json = {
      {"q99", number_to_json(rows.q99)}, {"q999", number_to_json(rows.q999)}, {"max", number_to_json(rows.largest)}};
  json["width"] = rows.width;
  for (const double loss : rows.by_position) json["by_position"].push_back(number_to_json(six_digits(loss)));
}

RowLosses read_rows(const Json& json) {
  RowLosses rows{number_from_json(json.at("q99")), number_from_json(json.at("q999")), number_from_json(json.at("max"))};
  json.at("width").get_to(rows.width);
  for (const Json& loss : json.at("by_position")) rows.by_position.push_back(number_from_json(loss));
  return rows;
}

void write_measurement(Json& json, const Measurement& measurement) {
  json["size_bytes"] = measurement.size_bytes;
  json["latency_ns"] = internal::latency_to_json(measurement.latency);
  if (measurement.decode_latency) json["decode_latency_ns"] = internal::latency_to_json(*measurement.decode_latency);
  Json& losses = json["losses"] = Json::object();
  for (const LossField& field : kLossFields) {
    losses[std::string(field.name)] = number_to_json(measurement.losses.*field.value);
  }
  if (measurement.pooled_kl) json["pooled_kl"] = number_to_json(*measurement.pooled_kl);
  if (measurement.kl_rows) write_rows(json["kl_rows"], *measurement.kl_rows);
  if (const auto& worst = measurement.worst_output)
    json["worst_output"] = {{"name", worst->name}, {"nmse", number_to_json(worst->nmse)}, {"outputs", worst->outputs}};
  Json& metrics = json["metrics"] = Json::object();
  for (const auto& [name, value] : measurement.metrics) metrics[name] = number_to_json(value);
  if (!measurement.lower_is_better.empty()) json["lower_is_better"] = measurement.lower_is_better;
  for (const auto& [name, interval] : measurement.intervals)
    json["intervals"][name] = {number_to_json(interval.low), number_to_json(interval.high)};
  if (!measurement.blocks.empty()) json["blocks"] = measurement.blocks;
  write_columns(json, "samples", measurement.samples);
  write_columns(json, "replicates", measurement.replicates);
}

Measurement read_measurement(const Json& json) {
  Measurement measurement;
  json.at("size_bytes").get_to(measurement.size_bytes);
  measurement.latency = internal::latency_from_json(json.at("latency_ns"));
  if (json.contains("decode_latency_ns"))
    measurement.decode_latency = internal::latency_from_json(json["decode_latency_ns"]);
  const Json& losses = json.at("losses");
  for (const LossField& field : kLossFields) {
    const auto value = losses.find(field.name);  // studies of before a loss was there do without
    measurement.losses.*field.value =
        value == losses.end() ? std::numeric_limits<double>::quiet_NaN() : number_from_json(*value);
  }
  if (json.contains("pooled_kl")) measurement.pooled_kl = number_from_json(json["pooled_kl"]);
  if (json.contains("kl_rows")) measurement.kl_rows = read_rows(json["kl_rows"]);
  if (json.contains("worst_output")) {
    const Json& worst = json["worst_output"];
    measurement.worst_output = {worst.at("name").get<std::string>(), number_from_json(worst.at("nmse")),
                                worst.at("outputs").get<int64_t>()};
  }
  for (const auto& [name, value] : json.at("metrics").items()) measurement.metrics[name] = number_from_json(value);
  if (json.contains("intervals"))
    for (const auto& [name, ends] : json["intervals"].items())
      measurement.intervals[name] = {number_from_json(ends.at(0)), number_from_json(ends.at(1))};
  if (json.contains("lower_is_better")) json["lower_is_better"].get_to(measurement.lower_is_better);
  if (json.contains("blocks")) json["blocks"].get_to(measurement.blocks);
  measurement.samples = read_columns(json, "samples");
  measurement.replicates = read_columns(json, "replicates");
  return measurement;
}

void write_outcome(Json& json, const Outcome& outcome) {
  json["outcome"] = outcome.measurement ? "ok" : "failed";
  json["failure"] = outcome.failure;
  if (outcome.measurement) write_measurement(json, *outcome.measurement);
}

Outcome read_outcome(const Json& json) {
  Outcome outcome;
  json.at("failure").get_to(outcome.failure);
  if (json.at("outcome") == "ok") outcome.measurement = read_measurement(json);
  return outcome;
}

constexpr std::array<std::pair<Part, std::string_view>, 3> kParts{
    {{Part::kEvaluation, "evaluation"}, {Part::kSearch, "search"}, {Part::kAcceptance, "acceptance"}}};

Error no_trial(const Json::exception& error) {
  return Error(Code::kInvalidInput, std::string("[study] a trial expected; ") + error.what());
}

}  // namespace

std::string_view to_string(Part part) {
  for (auto [known, name] : kParts)
    if (known == part) return name;
  return "?";
}

Part parse_part(std::string_view name) {
  for (auto [part, known] : kParts)
    if (known == name) return part;
  throw Error(Code::kInvalidInput,
              fmt::format("[study] part '{}' found; one of evaluation, search, acceptance expected", name));
}

std::string trial_to_json(const Trial& trial) {
  Json json;
  json["id"] = trial.id;
  json["number"] = trial.number;
  json["plan"] = internal::parse_json<Json>(plan_to_json(trial.plan)).at("schemes");
  json["excluded"] = trial.excluded;
  if (trial.part != Part::kEvaluation) json["part"] = to_string(trial.part);
  if (!trial.step.empty()) json["step"] = trial.step;
  write_outcome(json, {trial.measurement, trial.failure});
  for (const auto& [device, outcome] : trial.elsewhere) write_outcome(json["elsewhere"][device], outcome);
  // A runtime's message may hold any bytes; a trial is written all the same.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Trial trial_from_json(const std::string& line) {
  try {
    return internal::trial_of(internal::parse_json<Json>(line));
  } catch (const Json::exception& error) {
    throw no_trial(error);
  }
}

Trial internal::trial_of(const Json& json) {
  try {
    Trial trial;
    json.at("id").get_to(trial.id);
    json.at("number").get_to(trial.number);
    trial.plan = plan_of(json.at("plan"));
    json.at("excluded").get_to(trial.excluded);
    if (json.contains("part")) trial.part = parse_part(json["part"].get<std::string>());
    trial.step = json.value("step", "");
    Outcome here = read_outcome(json);
    trial.measurement = std::move(here.measurement);
    trial.failure = std::move(here.failure);
    if (json.contains("elsewhere"))
      for (const auto& [device, outcome] : json["elsewhere"].items()) trial.elsewhere[device] = read_outcome(outcome);
    return trial;
  } catch (const Json::exception& error) {
    throw no_trial(error);
  }
}

}  // namespace seqto
