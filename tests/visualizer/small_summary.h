// A study of twelve candidates as literals; one layer has a hostile name, one candidate has failed.
#pragma once

#include <cmath>
#include <string>

#include "seqto/report.h"

namespace seqto {

inline const std::string kHostile = "<script>alert(\"x\")</script>&'";

inline SummaryPoint measured_point(const std::string& id, int64_t number, int64_t size, double kl) {
  SummaryPoint point;
  point.trial.id = id;
  point.trial.number = number;
  point.size_reduction_kept = static_cast<double>(14000000 - size) / (14000000 - 3600000);
  Measurement measured;
  measured.size_bytes = size;
  measured.latency = {
      .median_ns = 3210000 + 100000 * number, .p10_ns = 3100000 + 100000 * number, .p90_ns = 3400000 + 100000 * number};
  measured.losses = {.kl = kl,
                     .top1_disagreement = kl / 2,
                     .top5_disagreement = kl,
                     .rank_dissimilarity = kl / 3,
                     .mse = kl * 2,
                     .cosine = kl / 10};
  measured.metrics = {{"top1", 0.72 - kl / 3}, {"top5", 0.9}};
  point.trial.measurement = measured;
  return point;
}

inline Summary small_summary() {
  Summary summary;
  summary.header = {.model_path = "models/<b>net.onnx",
                    .model_sha256 = std::string(64, 'a'),
                    .model_size_bytes = 14000000,
                    .data_fingerprint = "f00d",
                    .options_json = R"({"strategy":"incremental","threshold":0.5})",
                    .environment_json = R"({"host":"a <host>","threads":1})",
                    .calibration_samples = 50,
                    .search_samples = 0,
                    .evaluation_samples = 283};
  for (int i = 0; i < 8; ++i) {
    const std::string name = i == 2 ? kHostile : "conv" + std::to_string(i);
    summary.layers.push_back({.id = name,
                              .op_type = "Conv",
                              .output_shape = {1, 8, -1, -1},
                              .weight_bytes = 4000 << i,
                              .quantizable = true,
                              .reason = ""});
    summary.sensitivity.activations.push_back(
        {.tensor = name + "_out", .qdq_err = 24.0 + 2 * i, .xmodel_err = 8.0 + 3 * i, .score = 1.0 - i / 8.0});
    summary.sensitivity.weights.push_back({.tensor = name + ".weight", .sqnr = i == 0 ? 400.0 : 45.0 - 2 * i});
  }
  summary.layers.push_back({.id = "shape",
                            .op_type = "Shape",
                            .output_shape = {4},
                            .weight_bytes = 0,
                            .quantizable = false,
                            .reason = "no <float> input"});

  const TensorValues values{
      -1.5F, 2.5F, {{3, 0, 70, 9}, {-2, -0.75F, 0.5F, 1.75F, 3}}, QuantizedRange{DataType::kInt8, -2, 2, 1.0 / 64, 1}};
  std::vector<LayerReport> reports;
  std::string before = "input";
  for (const auto& layer : summary.layers) {
    const bool weighted = layer.quantizable;
    summary.wiring.push_back({layer.id, {before}, {}, {layer.id + "_out"}});
    if (weighted) summary.wiring.back().weights = {layer.id + ".weight"};
    before = layer.id + "_out";
    if (layer.id != "conv4") summary.values[before] = values;
    if (weighted) summary.values[layer.id + ".weight"] = values;
    reports.push_back(
        {layer.id, layer.op_type, weighted ? "int8" : "float32", weighted ? "<int8> & all" : layer.reason});
  }
  // A branch: the last layer reads the first one's output too. Values that are all equal.
  summary.wiring.back().inputs.push_back("conv0_out");
  summary.values["input"] = {0, 0, {{64}, {0, 0}}, {}};
  summary.value_samples = 32;
  summary.explained["full"] = reports;
  reports[1].scheme = "float32";
  reports[1].reason = "is excluded";
  summary.explained["0000000000000013"] = reports;

  summary.baseline = measured_point("float", 0, 14000000, 0);
  summary.fully_quantized = measured_point("full", 1, 3600000, 0.462);
  for (const auto& layer : summary.layers) {
    if (layer.quantizable) summary.fully_quantized.trial.plan.schemes[layer.id] = Scheme::kInt8;
  }
  summary.trials = {summary.baseline, summary.fully_quantized};
  auto plan = summary.fully_quantized.trial.plan;
  for (int i = 0; i < 10; ++i) {
    const std::string name = summary.layers[static_cast<size_t>(i) % 8].id;
    plan.schemes.erase(name);
    auto point = measured_point("00000000000000" + std::to_string(10 + i), 2 + i, 3650000 + 90000 * i * i,
                                0.4 / (1 + i) + (i % 3 == 1 ? 0.08 : 0));
    point.trial.plan = plan;
    for (int k = 0; k <= i; ++k) point.trial.excluded.push_back(summary.layers[static_cast<size_t>(k) % 8].id + "_out");
    if (i == 5) {
      point.trial.measurement.reset();
      point.trial.failure = "runtime: unsupported <op> & such";
    }
    summary.trials.push_back(point);
    if (i % 3 != 1 && i != 5) {
      point.file = "models/" + point.trial.id + ".onnx";
      point.plan_file = "plans/" + point.trial.id + ".json";
      summary.front.push_back(point);
    }
  }
  summary.front.insert(summary.front.begin(), summary.fully_quantized);
  summary.front.push_back(summary.baseline);
  for (const auto& point : summary.front) summary.outline.push_back(point.trial.id);
  for (auto& point : summary.front) point.mcnemar = 0.031;
  summary.top = {"0000000000000013", "0000000000000012", "0000000000000016"};
  summary.selected = "0000000000000013";
  summary.objectives = {"kl", "size"};
  summary.hypervolume = 0.875;
  summary.evaluations = 12;
  summary.wall_seconds = 73.4;
  int number = 0;
  for (auto& point : summary.front) {
    point.name = point.trial.id == "float" ? "float" : point.trial.id == "full" ? "int8" : std::to_string(++number);
    for (auto& trial : summary.trials)
      if (trial.trial.id == point.trial.id) trial.name = point.name;
  }
  for (auto& trial : summary.trials)
    if (trial.name.empty()) trial.name = trial.trial.id.substr(0, 8);
  summary.baseline.name = "float", summary.fully_quantized.name = "int8";
  summary.notes = {"The data has fewer samples than asked for: 283 <of 500>."};
  return summary;
}

}  // namespace seqto
