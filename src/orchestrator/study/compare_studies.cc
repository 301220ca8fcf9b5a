// Studies beside each other: what they found, and what was not the same.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "orchestrator/study/summarize.h"
#include "seqto/error.h"
#include "seqto/tune.h"
#include "visualizer/points.h"

namespace seqto {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using Studies = std::vector<ComparedStudy>;

// "calibration.method": value, of a JSON object.
void flatten(const json& value, const std::string& key, std::map<std::string, std::string>& out) {
  if (value.is_object() && !value.empty())
    for (const auto& [name, inner] : value.items()) flatten(inner, key.empty() ? name : key + "." + name, out);
  else out[key] = value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<Comparison::Difference> differences(const std::vector<std::map<std::string, std::string>>& each) {
  std::set<std::string> keys;
  for (const auto& one : each)
    for (const auto& [key, value] : one) keys.insert(key);
  std::vector<Comparison::Difference> found;
  for (const std::string& key : keys) {
    Comparison::Difference d{key, {}};
    for (const auto& one : each) d.values.push_back(one.contains(key) ? one.at(key) : "");
    if (std::ranges::adjacent_find(d.values, std::not_equal_to<>()) != d.values.end()) found.push_back(std::move(d));
  }
  return found;
}

std::map<std::string, std::string> facts_of(const std::string& text) {
  std::map<std::string, std::string> facts;
  flatten(internal::parse_json(text.empty() ? "{}" : text), "", facts);
  facts.erase("");
  return facts;
}

// Options, and what the study was made of.
std::map<std::string, std::string> inputs_of(const Summary& s) {
  auto facts = facts_of(s.header.options_json);
  facts["model"] = s.header.model_sha256.substr(0, 12);
  facts["data"] = s.header.data_fingerprint.substr(0, 12);
  facts["calibration_samples"] = fmt::to_string(s.header.calibration_samples);
  facts["search_samples"] = fmt::to_string(s.header.search_samples);
  facts["evaluation_samples"] = fmt::to_string(s.header.evaluation_samples);
  facts["objectives"] = json(s.objectives).dump();
  return facts;
}

bool all_equal(const Studies& studies, const auto& field) {
  return std::ranges::all_of(studies, [&](const ComparedStudy& s) { return field(s) == field(studies.front()); });
}

std::vector<std::string> warnings_of(const Studies& studies) {
  std::vector<std::string> warnings;
  const auto names = [&](const auto& field) {
    std::string text;
    for (const ComparedStudy& s : studies) text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", s.name, field(s));
    return text;
  };
  const auto model = [](const ComparedStudy& s) { return s.summary.header.model_sha256; };
  if (!all_equal(studies, model))
    warnings.push_back(fmt::format(
        "the studies are of different models: {}; sizes and losses of one say nothing about the other",
        names([](const ComparedStudy& s) { return fs::path(s.summary.header.model_path).filename().string(); })));
  const auto samples = [](const ComparedStudy& s) {
    const StudyHeader& h = s.summary.header;
    auto options = facts_of(h.options_json);
    // The evaluation's samples come behind the others, in the order that the seed mixes.
    return std::tuple(h.data_fingerprint, h.calibration_samples + h.search_samples, h.evaluation_samples,
                      options["sample_order"], options["sample_order"].empty() ? "" : options["seed"]);
  };
  if (!all_equal(studies, samples))
    warnings.push_back(fmt::format(
        "losses were measured on different samples: {}; give the same --data, numbers of samples and --seed to compare "
        "them",
        names([](const ComparedStudy& s) { return fmt::format("{} samples", s.summary.header.evaluation_samples); })));
  const auto device = [](const ComparedStudy& s) { return s.summary.device; };
  const auto machine = [](const ComparedStudy& s) {
    auto facts = facts_of(s.summary.header.environment_json);
    return std::tuple(facts["cpu"], facts["threads"], facts["runtime"]);
  };
  if (!all_equal(studies, device) || !all_equal(studies, machine))
    warnings.push_back("latencies come from different devices, processors, threads or runtimes");
  return warnings;
}

bool is_known_of_all_points(const std::string& objective, const Studies& studies) {
  return is_loss(objective) || std::ranges::all_of(studies, [&](const ComparedStudy& s) {
           return std::ranges::all_of(s.summary.front, [&](const SummaryPoint& p) {
             return p.trial.measurement->metrics.contains(objective);
           });
         });
}

// The first study's loss, or the next one's where a study has no such metric.
std::string common_loss(const Studies& studies) {
  for (const ComparedStudy& s : studies)
    if (std::string loss = internal::loss_name(s.summary); is_known_of_all_points(loss, studies)) return loss;
  return "kl";
}

// A loss, size, and latency where all have it.
std::vector<std::string> common_objectives(const Studies& studies) {
  std::vector<std::string> objectives{common_loss(studies), "size"};
  const auto timed = [](const ComparedStudy& s) {
    return std::ranges::find(s.summary.objectives, "latency") != s.summary.objectives.end();
  };
  if (std::ranges::all_of(studies, timed)) objectives.emplace_back("latency");
  return objectives;
}

void find_leading(Studies& studies, const std::vector<std::string>& objectives) {
  const auto point_of = [&](const SummaryPoint& p) {
    Point point;
    for (const auto& name : objectives) point.push_back(objective(*p.trial.measurement, name));
    return point;
  };
  std::vector<std::vector<Point>> fronts;
  for (const ComparedStudy& s : studies) {
    auto& front = fronts.emplace_back();
    for (const SummaryPoint& p : s.summary.front) front.push_back(point_of(p));
  }
  for (size_t s = 0; s < studies.size(); ++s)
    for (size_t i = 0; i < fronts[s].size(); ++i) {
      bool beaten = false;
      for (size_t other = 0; other < studies.size(); ++other)
        beaten |= other != s &&
                  std::ranges::any_of(fronts[other], [&](const Point& p) { return dominates(p, fronts[s][i]); });
      if (!beaten) studies[s].leading.push_back(studies[s].summary.front[i].trial.id);
    }
}

std::string scheme_in_selected(const Summary& summary, const LayerId& layer) {
  if (std::ranges::find(summary.layers, layer, &Layer::id) == summary.layers.end()) return "";
  const auto selected =
      std::ranges::find(summary.front, summary.selected, [](const SummaryPoint& p) { return p.trial.id; });
  if (selected == summary.front.end()) return std::string(to_string(Scheme::kFloat32));
  const auto& schemes = selected->trial.plan.schemes;
  const auto found = schemes.find(layer);
  return std::string(to_string(found == schemes.end() ? Scheme::kFloat32 : found->second));
}

std::vector<Comparison::LayerSchemes> differing_layers(const Studies& studies) {
  std::vector<Comparison::LayerSchemes> layers;
  std::set<LayerId> seen;
  for (const ComparedStudy& of : studies)
    for (const Layer& layer : of.summary.layers) {
      if (!internal::takes_codes(layer) || !seen.insert(layer.id).second) continue;
      Comparison::LayerSchemes l{layer.id, {}};
      for (const ComparedStudy& s : studies) l.schemes.push_back(scheme_in_selected(s.summary, layer.id));
      if (std::ranges::adjacent_find(l.schemes, std::not_equal_to<>()) != l.schemes.end())
        layers.push_back(std::move(l));
    }
  return layers;
}

Studies read_all(const std::vector<fs::path>& dirs) {
  Studies studies;
  std::set<fs::path> seen;
  std::map<std::string, int> called;
  for (const fs::path& dir : dirs) {
    const fs::path real = fs::weakly_canonical(dir);
    if (!seen.insert(real).second)
      throw Error(Code::kUsage, fmt::format("[report] {} given twice; different studies were expected", dir.string()));
    studies.push_back({real.filename().string(), read_summary(dir), {}});
    ++called[studies.back().name];
  }
  for (size_t i = 0; i < studies.size(); ++i)
    if (called[studies[i].name] > 1) studies[i].name = dirs[i].string();
  return studies;
}

}  // namespace

Comparison compare_studies(const std::vector<fs::path>& dirs) {
  if (dirs.size() < 2)
    throw Error(Code::kUsage,
                fmt::format("[report] {} studies to compare found; two or more were expected", dirs.size()));
  Comparison c;
  c.studies = read_all(dirs);
  c.warnings = warnings_of(c.studies);
  c.objectives = common_objectives(c.studies);
  find_leading(c.studies, c.objectives);
  std::vector<std::map<std::string, std::string>> options, environment;
  for (const ComparedStudy& s : c.studies) {
    options.push_back(inputs_of(s.summary));
    environment.push_back(facts_of(s.summary.header.environment_json));
  }
  c.options = differences(options);
  c.environment = differences(environment);
  c.layers = differing_layers(c.studies);
  return c;
}

}  // namespace seqto
