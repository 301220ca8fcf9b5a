#include "seqto/gate.h"
#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "metrics/limits.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;

Json figure_json(const Figure& f) {
  Json json{{"value", f.value}, {"interval", nullptr}};
  if (f.interval) json["interval"] = {f.interval->low, f.interval->high};
  return json;
}

// Absolute times say nothing of another machine or runtime.
bool depends_on_machine(const std::string& figure) { return figure.find("latency") != std::string::npos; }

void note_change(std::vector<std::string>& notes, const char* what, const std::string& was, const std::string& is) {
  if (was != is) notes.push_back(fmt::format("{} changed: {} now, {} when it was locked", what, is, was));
}

}  // namespace

bool passed(const GateResult& result) { return std::ranges::all_of(result.limits, &CheckedLimit::met); }

std::string lock_to_json(const Measured& m) {
  Json figures = Json::object();
  for (const auto& [name, figure] : m.figures) {
    if (!std::isfinite(figure.value))
      throw Error(Code::kInvalidInput, fmt::format("[check] {} is {}; finite figures were expected in a lock file; "
                                                   "check the model with `seqto validate`",
                                                   name, figure.value));
    figures[name] = figure_json(figure);
    if (figure.higher_is_better && !higher_is_better(name)) figures[name]["higher_is_better"] = true;
  }
  Json recipe = m.recipe_json.empty() ? Json() : internal::parse_json_if_any<Json>(m.recipe_json);
  if (recipe.is_discarded()) recipe = m.recipe_json;
  Json json{{"schema_version", 1},
            {"candidate", m.candidate},
            {"model_sha256", m.model_sha256},
            {"reference_sha256", m.reference_sha256},
            {"recipe", recipe},
            {"data", m.data},
            {"samples", m.samples},
            {"versions", {{"seqto", m.seqto}, {"runner", m.runner}}},
            {"machine", m.machine},
            {"figures", figures}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Measured lock_from_json(const std::string& text) {
  try {
    const Json json = internal::parse_json<Json>(text);
    if (int version = json.at("schema_version"); version != 1)
      throw Error(Code::kInvalidInput,
                  fmt::format("[check] a lock file of version {} found; version 1 expected; write it anew with --lock",
                              version));
    Measured m;
    m.candidate = json.at("candidate");
    m.model_sha256 = json.at("model_sha256");
    m.reference_sha256 = json.at("reference_sha256");
    if (!json.at("recipe").is_null()) m.recipe_json = json["recipe"].dump();
    m.data = json.at("data");
    m.samples = json.value("samples", int64_t{0});  // locks of before it was there have none
    m.seqto = json.at("versions").at("seqto");
    m.runner = json.at("versions").at("runner");
    m.machine = json.at("machine");
    for (const auto& [name, figure] : json.at("figures").items()) {
      Figure& f = m.figures[name];
      f.value = figure.at("value");
      if (const auto& ends = figure.at("interval"); !ends.is_null()) f.interval = Interval{ends.at(0), ends.at(1)};
      f.higher_is_better = figure.value("higher_is_better", higher_is_better(name));
    }
    return m;
  } catch (const Json::exception& error) {
    throw Error(Code::kInvalidInput,
                fmt::format("[check] a lock file expected, as --lock writes it; {}; write it anew", error.what()));
  }
}

void save_lock(const Measured& measured, const std::filesystem::path& file) {
  write_file_atomic(file, lock_to_json(measured));
}

Measured load_lock(const std::filesystem::path& file) { return lock_from_json(read_file(file)); }

LockComparison compare_lock(const Measured& lock, const Measured& now, const std::string& lock_name) {
  auto require_same = [&](const char* what, const std::string& was, const std::string& is) {
    if (was != is)
      throw Error(Code::kInvalidInput,
                  fmt::format("[check] {} {:.16} found; {:.16} expected, as {} has it: figures can be compared on the "
                              "same inputs only; give those, or write the lock file anew with --lock",
                              what, is, was, lock_name));
  };
  require_same("the data", lock.data, now.data);
  if (lock.samples > 0 && now.samples > 0)
    require_same("the number of samples", std::to_string(lock.samples), std::to_string(now.samples));
  require_same("the float model", lock.reference_sha256, now.reference_sha256);
  LockComparison result;
  note_change(result.notes, "seqto", lock.seqto, now.seqto);
  note_change(result.notes, "the runtime", lock.runner, now.runner);
  note_change(result.notes, "the machine", lock.machine, now.machine);
  if (lock.model_sha256 != now.model_sha256) result.notes.emplace_back("the model's bytes changed");
  if (lock.recipe_json != now.recipe_json) result.notes.emplace_back("the recipe changed");
  const bool elsewhere = lock.machine != now.machine || lock.runner != now.runner;
  for (const auto& [name, figure] : lock.figures) {
    if (depends_on_machine(name) && elsewhere) {
      result.notes.push_back(fmt::format("{} is not compared: it is another machine's or runtime's", name));
    } else if (depends_on_machine(name) && !now.figures.contains(name)) {
      result.notes.push_back(fmt::format("{} is not compared: it was not measured this time", name));
    } else if (const auto metric = internal::dropped_metric(name);
               metric && !now.figures.contains(name) && now.figures.contains(*metric)) {  // written by an earlier seqto
      result.notes.push_back(
          fmt::format("{} is not compared: the float model scores 0, from which nothing can drop", name));
    } else {
      const bool at_most = !figure.higher_is_better && !higher_is_better(name);
      result.limits.push_back({name, worse_end(figure, at_most), at_most, lock_name});
    }
  }
  return result;
}

}  // namespace seqto
