#include "orchestrator/predicted_latencies.h"

#include <fmt/format.h>

namespace seqto::internal {
namespace {

// Of the finalists in turn, once they were timed so.
std::vector<LatencyModel::Measured> measured_latencies(const std::string& device, const Study& study,
                                                       const Ending& ending) {
  std::vector<LatencyModel::Measured> measured, in_turn;
  const auto finalists = ending.latencies.find(device);
  for (const Trial& t : study.trials()) {
    if (t.part != Part::kEvaluation || !t.measurement || t.id == "published") continue;
    measured.push_back({t.plan, static_cast<double>(t.measurement->latency.median_ns)});
    if (finalists == ending.latencies.end()) continue;
    if (const auto timed = finalists->second.find(t.id); timed != finalists->second.end())
      in_turn.push_back({t.plan, static_cast<double>(timed->second.median_ns)});
  }
  return in_turn.empty() ? measured : in_turn;
}

}  // namespace

std::optional<LatencyModel> fitted_latency_model(const Model& model, const std::vector<SearchGroup>& groups,
                                                 const std::function<Model(const Plan&)>& candidate, const Place& place,
                                                 std::span<const Tensor> inputs, Study& study, Ending& ending) {
  if (const std::string* text = study.noted("latency model")) return LatencyModel::from_json(*text, model, groups);
  auto result = LatencyModel::profiled(model, groups, candidate, *place.runner, inputs);
  if (!result) {
    ending.notes.push_back(fmt::format(
        "{} does not tell what its nodes cost: the search followed size alone, latencies are measured all the same",
        place.device));
    return {};
  }
  result->fit(measured_latencies(place.device, study, ending));
  study.note("latency model", result->to_json());
  return result;
}

void note_error(const LatencyModel& model, const std::string& device, const Study& study, Ending& ending) {
  const auto measured = measured_latencies(device, study, ending);
  if (measured.size() < 6) return;
  ending.notes.push_back(fmt::format(
      "the search predicted latencies from a profile of each scheme; on the {} measured plans the model is off by "
      "{:.1f} % on average, each predicted from the others",
      measured.size(), 100 * model.cross_validated_error(measured)));
}

}  // namespace seqto::internal
