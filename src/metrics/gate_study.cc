// A study's point as the gate sees it: read from summary.json, whose form is a contract, and the study's header.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "metrics/latency_json.h"
#include "metrics/limits.h"
#include "metrics/loss/loss_fields.h"
#include "metrics/study_point.h"
#include "seqto/error.h"
#include "seqto/gate.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Null stands for what is not a number.
double number(const Json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

Measurement measurement_of(const Json& point) {
  Measurement m;
  point.at("size_bytes").get_to(m.size_bytes);
  const auto latency = [&](const char* name) -> std::optional<Latency> {
    const Json found = point.value(name, Json());
    if (found.is_null()) return {};
    return internal::latency_from_json(found);
  };
  m.latency = latency("latency_ns").value_or(Latency());
  m.decode_latency = latency("decode_latency_ns");
  for (const LossField& field : kLossFields)
    m.losses.*field.value = number(point.at("losses").at(std::string(field.name)));
  if (const Json worst = point.value("worst_output", Json()); !worst.is_null())
    m.worst_output = {worst.at("name"), number(worst.at("nmse")), worst.at("outputs")};
  for (const auto& [name, value] : point.at("metrics").items()) m.metrics[name] = number(value);
  for (const Json& name : point.value("lower_is_better", Json::array())) m.lower_is_better.insert(name);
  const Json intervals = point.value("intervals", Json::object());
  for (const auto& [name, ends] : intervals.items()) m.intervals[name] = {ends.at(0), ends.at(1)};
  return m;
}

std::string hash_of(const fs::path& dir, const Json& point) {
  const Json file = point.value("file", Json());
  return file.is_string() && fs::exists(dir / file.get<std::string>()) ? sha256_file(dir / file.get<std::string>())
                                                                       : std::string();
}

// What the summary says of one device; of the first it is the summary itself, which outlives what is returned.
const Json& front_on(const fs::path& dir, const Json& summary, const std::string& device) {
  const std::string first = summary.value("device", "cpu");
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter)
  if (device.empty() || device == first) return summary;
  const auto others = summary.find("elsewhere");
  if (others != summary.end() && others->contains(device)) return others->at(device);
  std::vector<std::string> devices{first};
  if (others != summary.end())
    for (const auto& [name, front] : others->items()) devices.push_back(name);
  throw Error(
      Code::kInvalidInput,
      fmt::format("[check] --device {} found; the study {} was measured on {}; choose {}, or tune it on {} too", device,
                  dir.string(), fmt::join(devices, ", "), devices.size() > 1 ? "one of them" : "that", device));
}

Measured measured(const fs::path& dir, const Json& summary, const std::string& asked, const std::string& device) {
  const Json& front = front_on(dir, summary, device);
  const Json& point = internal::point_called(front, asked, "check");
  const std::string id = point.at("id");
  if (point.at("size_bytes").is_null())
    throw Error(Code::kInvalidInput,
                fmt::format("[check] the candidate {} failed: {}; one that was measured was expected; choose another",
                            id, point.value("failure", "")));
  const StudyHeader header = Study::read(StudyFolder{dir}.study()).header();
  const Json environment = summary.value("environment", Json::object());
  auto text = [&](const char* name) { return environment.is_object() ? environment.value(name, "") : ""; };
  Measured m;
  m.candidate = id;
  m.model_sha256 = hash_of(dir, point);
  m.reference_sha256 = header.model_sha256;
  m.recipe_json = Json{{"options", summary.at("options")}, {"layers", point.at("layers")}}.dump();
  m.data = header.data_fingerprint;
  m.samples = header.evaluation_samples;
  m.random_inputs = summary.at("options").is_object() && summary["options"].value("data", "") == "random";
  m.runner = text("runtime");
  if (&front != &summary && environment.is_object())
    m.runner = environment.value("also on", Json::object()).value(device, m.runner);
  m.machine = text("cpu");
  m.seqto = text("seqto");
  m.loss = followed_loss(summary.at("objectives").get<std::vector<std::string>>());
  m.figures = figures_of(measurement_of(point), measurement_of(front.at("baseline")));
  // Samples, which pair a candidate with the original, are not in the summary; what came of them is.
  const Json drops = point.value("drops", Json::object());
  for (const auto& [name, drop] : drops.items())
    if (const auto figure = m.figures.find(internal::drop_figure(name));
        figure != m.figures.end() && !drop.at("interval").is_null())
      figure->second.interval = Interval{drop["interval"].at(0), drop["interval"].at(1)};
  return m;
}

}  // namespace

Measured measured_in_study(const fs::path& dir, const std::string& id, const std::string& device) {
  const fs::path file = StudyFolder{dir}.summary();
  if (!fs::exists(file))
    throw Error(Code::kInvalidInput,
                fmt::format("[check] {} holds no summary.json; the folder of a finished study, or a model with "
                            "--reference, was expected; run `seqto tune` or `seqto report` first",
                            dir.string()));
  try {
    return measured(dir, internal::parse_json<Json>(read_file(file)), id, device);
  } catch (const Json::exception& error) {
    throw Error(Code::kInvalidInput,
                fmt::format("[check] {}: {}; a summary of version 1 was expected; draw it again with `seqto report`",
                            file.string(), error.what()));
  }
}

}  // namespace seqto
