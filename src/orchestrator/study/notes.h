// Room: orchestrator/study. What a study keeps beside its trials, as JSON lines and back.
#pragma once

#include <string>
#include <vector>

#include "seqto/explain.h"
#include "seqto/gate.h"
#include "seqto/metrics.h"
#include "seqto/runner.h"

namespace seqto::internal {

std::string ranges_to_json(const Ranges& ranges);
Ranges ranges_from_json(const std::string& text);
std::string sensitivity_to_json(const Sensitivity& sensitivity);
Sensitivity sensitivity_from_json(const std::string& text);
std::string layers_to_json(const std::vector<Layer>& layers);
std::vector<Layer> layers_from_json(const std::string& text);

std::string placements_to_json(const std::map<std::string, std::vector<NodePlacement>>& by_device);
std::map<std::string, std::vector<NodePlacement>> placements_from_json(const std::string& text);

std::string wiring_to_json(const std::vector<LayerTensors>& wiring);
std::vector<LayerTensors> wiring_from_json(const std::string& text);

// Of so many samples.
struct NotedValues {
  int64_t samples = 0;
  std::map<std::string, TensorValues> tensors;
};
std::string values_to_json(const NotedValues& values);
NotedValues values_from_json(const std::string& text);

// Layers of plans, by the plans' ids; the same layers in the same order for each of them.
using Explained = std::map<std::string, std::vector<LayerReport>>;
std::string explained_to_json(const Explained& explained);
Explained explained_from_json(const std::string& text);

// What the last run of tune() ended with.
struct Ending {
  std::vector<std::string> objectives;
  double wall_seconds = 0;  // of all runs
  // Of the finalists, measured again side by side: by device, then by trial.
  std::map<std::string, std::map<std::string, Latency>> latencies;
  std::vector<std::string> notes;
  std::vector<Limit> limits;
};
std::string ending_to_json(const Ending& ending);
Ending ending_from_json(const std::string& text);

}  // namespace seqto::internal
