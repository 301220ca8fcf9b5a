#include "orchestrator/study/notes.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace seqto::internal {

using nlohmann::json;

std::string ranges_to_json(const Ranges& ranges) {
  json result = json::object();
  for (const auto& [tensor, range] : ranges) result[tensor] = {range.lowest, range.highest};
  return result.dump();
}

Ranges ranges_from_json(const std::string& text) {
  Ranges ranges;
  json parsed = parse_json(text);
  for (const auto& [tensor, pair] : parsed.items()) ranges[tensor] = {pair.at(0).get<float>(), pair.at(1).get<float>()};
  return ranges;
}

std::string sensitivity_to_json(const Sensitivity& sensitivity) {
  json activations = json::array(), weights = json::array();
  for (const auto& e : sensitivity.activations)
    activations.push_back(
        {{"tensor", e.tensor}, {"qdq_err", e.qdq_err}, {"xmodel_err", e.xmodel_err}, {"score", e.score}});
  for (const auto& e : sensitivity.weights) weights.push_back({{"tensor", e.tensor}, {"sqnr", e.sqnr}});
  return json{{"activations", activations}, {"weights", weights}}.dump();
}

Sensitivity sensitivity_from_json(const std::string& text) {
  Sensitivity s;
  json parsed = parse_json(text);
  // JSON has no NaN: an error that is not known (a tensor without a pair of its own has no qdq_err) is null there.
  auto number = [](const json& e, const char* key) {
    const json& value = e.at(key);
    return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  };
  for (const auto& e : parsed.at("activations"))
    s.activations.push_back({e.at("tensor"), number(e, "qdq_err"), number(e, "xmodel_err"), number(e, "score")});
  for (const auto& e : parsed.at("weights")) s.weights.push_back({e.at("tensor"), number(e, "sqnr")});
  return s;
}

std::string layers_to_json(const std::vector<Layer>& layers) {
  json result = json::array();
  for (const Layer& l : layers)
    result.push_back({{"name", l.id},
                      {"op_type", l.op_type},
                      {"output_shape", l.output_shape},
                      {"weight_bytes", l.weight_bytes},
                      {"quantizable", l.quantizable},
                      {"reason", l.reason}});
  return result.dump();
}

std::vector<Layer> layers_from_json(const std::string& text) {
  std::vector<Layer> layers;
  json parsed = parse_json(text);
  for (const auto& l : parsed)
    layers.push_back({.id = l.at("name"),
                      .op_type = l.at("op_type"),
                      .output_shape = l.at("output_shape").get<std::vector<int64_t>>(),
                      .weight_bytes = l.at("weight_bytes"),
                      .quantizable = l.at("quantizable"),
                      .reason = l.at("reason")});
  return layers;
}

std::string placements_to_json(const std::map<std::string, std::vector<NodePlacement>>& by_device) {
  json result = json::object();
  for (const auto& [device, nodes] : by_device)
    for (const NodePlacement& n : nodes) result[device].push_back({n.node, n.op_type, n.provider});
  return result.dump();
}

std::map<std::string, std::vector<NodePlacement>> placements_from_json(const std::string& text) {
  std::map<std::string, std::vector<NodePlacement>> by_device;
  json parsed = parse_json(text);
  for (const auto& [device, nodes] : parsed.items())
    for (const auto& n : nodes) by_device[device].push_back({n.at(0), n.at(1), n.at(2)});
  return by_device;
}

std::string ending_to_json(const Ending& ending) {
  json latencies = json::object();
  for (const auto& [device, trials] : ending.latencies)
    for (const auto& [id, l] : trials) latencies[device][id] = {l.median_ns, l.p10_ns, l.p90_ns};
  json limits = json::array();
  for (const Limit& l : ending.limits)
    limits.push_back({{"figure", l.figure}, {"bound", l.bound}, {"at_most", l.at_most}, {"asked_by", l.asked_by}});
  return json{{"objectives", ending.objectives},
              {"limits", limits},
              {"wall_seconds", ending.wall_seconds},
              {"device_latencies", latencies},
              {"notes", ending.notes}}
      .dump();
}

Ending ending_from_json(const std::string& text) {
  json parsed = parse_json(text);
  Ending ending{parsed.at("objectives"), parsed.at("wall_seconds"), {}, parsed.at("notes"), {}};
  json latencies = parsed.value("device_latencies", json::object());
  for (const auto& [device, trials] : latencies.items())
    for (const auto& [id, l] : trials.items()) ending.latencies[device][id] = {l.at(0), l.at(1), l.at(2)};
  for (const json& l : parsed.value("limits", json::array()))
    ending.limits.push_back({l.at("figure"), l.at("bound"), l.at("at_most"), l.at("asked_by")});
  return ending;
}

}  // namespace seqto::internal
