// A study's point as the gate sees it: read from summary.json, whose form is a contract, and the study's header.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "seqto/error.h"
#include "seqto/gate.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const Json* find_point(const Json& summary, const std::string& id) {
  const Json* found = nullptr;
  auto look = [&](const Json& point) {
    if (point.value("id", "") == id) found = &point;
  };
  look(summary.at("baseline"));
  look(summary.at("fully_quantized"));
  for (const Json& point : summary.at("front")) look(point);
  return found;
}

std::vector<std::string> ids(const Json& summary) {
  std::vector<std::string> all{summary.at("fully_quantized").at("id")};
  for (const Json& point : summary.at("front")) all.push_back(point.at("id"));
  return all;
}

void take(Figures& figures, const Json& values, const Json& intervals) {
  for (const auto& [name, value] : values.items()) {
    if (!value.is_number()) continue;
    Figure& f = figures[name] = {value.get<double>(), std::nullopt};
    if (intervals.contains(name) && intervals[name].is_array() && intervals[name].size() == 2)
      f.interval = Interval{intervals[name][0], intervals[name][1]};
  }
}

Figures figures_of(const Json& point, const Json& baseline) {
  Figures f;
  const Json intervals = point.value("intervals", Json::object());
  const double size = point.at("size_bytes"), float_size = baseline.at("size_bytes");
  f["size_bytes"] = {size, std::nullopt};
  f["size_ratio"] = {size / float_size, std::nullopt};
  // A study keeps no times of single runs: the spread of the runs stands for the interval.
  const Json &latency = point.at("latency_ns"), &float_latency = baseline.at("latency_ns");
  if (const double median = latency.at("median"); median > 0) {
    const Interval spread{latency.at("p10"), latency.at("p90")};
    f["latency_ns"] = {median, spread};
    if (const double other = float_latency.at("median"); other > 0)
      f["latency_ratio"] = {median / other, Interval{spread.low / other, spread.high / other}};
  }
  take(f, point.at("losses"), intervals);
  take(f, point.at("metrics"), intervals);
  for (const auto& [name, value] : point.at("metrics").items())
    if (higher_is_better(name) && value.is_number() && baseline.at("metrics").contains(name))
      f[name + "_drop"] = {baseline["metrics"][name].get<double>() - value.get<double>(), std::nullopt};
  return f;
}

std::string hash_of(const fs::path& dir, const Json& point) {
  const Json file = point.value("file", Json());
  return file.is_string() && fs::exists(dir / file.get<std::string>()) ? sha256_file(dir / file.get<std::string>())
                                                                       : std::string();
}

Measured measured(const fs::path& dir, const Json& summary, const std::string& asked) {
  const std::string id = asked == "selected"          ? summary.at("selected").get<std::string>()
                         : asked == "fully_quantized" ? summary.at("fully_quantized").at("id").get<std::string>()
                                                      : asked;
  const Json* point = find_point(summary, id);
  if (!point)
    throw Error(Code::kInvalidInput, fmt::format("[check] the candidate {} found; selected, fully_quantized or one of "
                                                 "{} expected; {} lists them",
                                                 id, fmt::join(ids(summary), ", "), (dir / "summary.json").string()));
  if (point->at("size_bytes").is_null())
    throw Error(Code::kInvalidInput,
                fmt::format("[check] the candidate {} failed: {}; one that was measured was expected; choose another",
                            id, point->value("failure", "")));
  const StudyHeader header = Study::read(dir / "study.jsonl").header();
  const Json environment = summary.value("environment", Json::object());
  auto text = [&](const char* name) { return environment.is_object() ? environment.value(name, "") : ""; };
  Measured m;
  m.candidate = id;
  m.model_sha256 = hash_of(dir, *point);
  m.reference_sha256 = header.model_sha256;
  m.recipe_json = Json{{"options", summary.at("options")}, {"layers", point->at("layers")}}.dump();
  m.data = header.data_fingerprint;
  m.random_inputs = summary.at("options").is_object() && summary["options"].value("data", "") == "random";
  m.runner = text("runtime");
  m.machine = text("cpu");
  m.seqto = text("seqto");
  m.figures = figures_of(*point, summary.at("baseline"));
  return m;
}

}  // namespace

Measured measured_in_study(const fs::path& dir, const std::string& id) {
  const fs::path file = dir / "summary.json";
  if (!fs::exists(file))
    throw Error(Code::kInvalidInput,
                fmt::format("[check] {} holds no summary.json; the folder of a finished study, or a model with "
                            "--reference, was expected; run `seqto tune` or `seqto report` first",
                            dir.string()));
  try {
    return measured(dir, Json::parse(read_file(file)), id);
  } catch (const Json::exception& error) {
    throw Error(Code::kInvalidInput,
                fmt::format("[check] {}: {}; a summary of version 1 was expected; draw it again with `seqto report`",
                            file.string(), error.what()));
  }
}

}  // namespace seqto
