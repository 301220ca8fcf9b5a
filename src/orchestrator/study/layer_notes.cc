// Notes of single layers: their tensors, values and reasons. They are the longest ones, so they are written densely.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/texts.h"
#include "orchestrator/study/notes.h"

namespace seqto::internal {

using nlohmann::json;

std::string wiring_to_json(const std::vector<LayerTensors>& wiring) {
  json layers = json::array();
  for (const LayerTensors& l : wiring)
    layers.push_back({{"name", l.layer}, {"inputs", l.inputs}, {"weights", l.weights}, {"outputs", l.outputs}});
  return layers.dump();
}

std::vector<LayerTensors> wiring_from_json(const std::string& text) {
  std::vector<LayerTensors> wiring;
  const json parsed = parse_json(text);
  for (const json& l : parsed) wiring.push_back({l.at("name"), l.at("inputs"), l.at("weights"), l.at("outputs")});
  return wiring;
}

std::string values_to_json(const NotedValues& values) {
  json tensors = json::object();
  for (const auto& [name, v] : values.tensors) {
    const auto& edges = v.histogram.edges;
    json tensor{
        {"range", {v.lowest, v.highest}}, {"bins", {edges.front(), edges.back()}}, {"counts", v.histogram.counts}};
    if (const auto& q = v.quantized)
      tensor["quantized"] = {{"type", to_string(q->type)},
                             {"range", {q->lowest, q->highest}},
                             {"scale", q->scale},
                             {"channels", q->channels}};
    tensors[name] = std::move(tensor);
  }
  return json{{"samples", values.samples}, {"tensors", tensors}}.dump();
}

NotedValues values_from_json(const std::string& text) {
  const json parsed = parse_json(text);
  NotedValues values{parsed.at("samples"), {}};
  for (const auto& [name, tensor] : parsed.at("tensors").items()) {
    TensorValues& v = values.tensors[name];
    v.lowest = tensor.at("range").at(0);
    v.highest = tensor.at("range").at(1);
    v.histogram.counts = tensor.at("counts").get<std::vector<int64_t>>();
    const float first = tensor.at("bins").at(0), last = tensor.at("bins").at(1);
    const size_t bins = v.histogram.counts.size();
    for (size_t i = 0; i <= bins; ++i)
      v.histogram.edges.push_back(
          i == bins ? last : first + (last - first) * static_cast<float>(i) / static_cast<float>(bins));
    if (const auto q = tensor.find("quantized"); q != tensor.end())
      v.quantized = QuantizedRange{.type = parse_data_type(q->at("type").get<std::string>()),
                                   .lowest = q->at("range").at(0),
                                   .highest = q->at("range").at(1),
                                   .scale = q->at("scale"),
                                   .channels = q->at("channels")};
  }
  return values;
}

std::string explained_to_json(const Explained& explained) {
  Texts texts;
  json layers = json::array(), plans = json::object();
  for (const auto& [id, reports] : explained) {
    json& plan = plans[id] = json::array();
    for (const LayerReport& l : reports) {
      if (layers.size() == plan.size()) layers.push_back({l.name, l.op_type});
      plan.push_back({texts.at(l.scheme), texts.at(l.reason)});
    }
  }
  return json{{"layers", layers}, {"texts", texts.list()}, {"plans", plans}}.dump();
}

Explained explained_from_json(const std::string& text) {
  Explained explained;
  const json parsed = parse_json(text);
  const json &texts = parsed.at("texts"), &layers = parsed.at("layers");
  for (const auto& [id, plan] : parsed.at("plans").items())
    for (size_t i = 0; i < plan.size(); ++i)
      explained[id].push_back({layers.at(i).at(0), layers.at(i).at(1), texts.at(plan[i].at(0).get<size_t>()),
                               texts.at(plan[i].at(1).get<size_t>())});
  return explained;
}

}  // namespace seqto::internal
