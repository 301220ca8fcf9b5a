#include "visualizer/layer_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/texts.h"
#include "seqto/report.h"
#include "visualizer/format.h"
#include "visualizer/points.h"

namespace seqto::internal {
namespace {

using Json = nlohmann::ordered_json;

Json tensors_data(const Summary& summary) {
  Json tensors = Json::object();
  for (const auto& [name, v] : summary.values) {
    Json& tensor = tensors[name];
    tensor["range"] = {v.lowest, v.highest};
    tensor["bins"] = {v.histogram.edges.front(), v.histogram.edges.back()};
    tensor["counts"] = v.histogram.counts;
    if (v.quantized)
      tensor["quantized"] = {{"type", to_string(v.quantized->type)},
                             {"range", {v.quantized->lowest, v.quantized->highest}},
                             {"scale", v.quantized->scale},
                             {"channels", v.quantized->channels}};
  }
  for (const ActivationError& error : summary.sensitivity.activations) {
    tensors[error.tensor]["qdq_err"] = error.qdq_err;
    tensors[error.tensor]["xmodel_err"] = error.xmodel_err;
  }
  for (const WeightError& error : summary.sensitivity.weights) tensors[error.tensor]["sqnr"] = error.sqnr;
  return tensors;
}

Json layers_data(const Summary& summary) {
  std::unordered_map<std::string, const Layer*> known;
  for (const Layer& layer : summary.layers) known[layer.id] = &layer;
  Json layers = Json::array();
  for (const LayerTensors& node : summary.wiring) {
    Json layer{{"name", node.layer}, {"inputs", node.inputs}, {"weights", node.weights}, {"outputs", node.outputs}};
    if (const auto found = known.find(node.layer); found != known.end()) {
      const Layer& l = *found->second;
      layer["op"] = l.op_type;
      layer["shape"] = format_shape(l.output_shape, " × ");
      layer["weights_text"] = format_bytes(l.weight_bytes);
      layer["quantizable"] = l.quantizable;
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace

Json layer_view_data(const Summary& summary) {
  if (summary.wiring.empty()) return {};
  Json data{{"layers", layers_data(summary)}, {"tensors", tensors_data(summary)}};
  Texts texts;
  Json plans = Json::object();
  for (const auto& [id, reports] : summary.explained) {
    if (!find_point(summary, id)) continue;
    std::unordered_map<std::string, const LayerReport*> by_name;
    for (const LayerReport& report : reports) by_name[report.name] = &report;
    Json& plan = plans[id] = Json::array();
    for (const LayerTensors& node : summary.wiring) {
      const auto found = by_name.find(node.layer);
      plan.push_back(found == by_name.end() ? Json{texts.at("float32"), texts.at("")}
                                            : Json{texts.at(found->second->scheme), texts.at(found->second->reason)});
    }
  }
  data["texts"] = texts.list();
  data["plans"] = std::move(plans);
  return data;
}

}  // namespace seqto::internal
