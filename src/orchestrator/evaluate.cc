#include "orchestrator/evaluate.h"

#include <fmt/format.h>

#include <algorithm>

#include "seqto/error.h"

namespace seqto::internal {

Evaluated measure(Session& session, const EvaluationData& evaluation, const Env& env) {
  Evaluated result;
  std::vector<int64_t> times;
  auto answers = std::make_shared<Answers>(session.output_names());
  const size_t count = evaluation.samples.size();
  for (size_t begin = 0; begin < count; begin += evaluation.chunk_samples) {
    env.stop_if_cancelled("evaluate");
    std::vector<std::vector<Tensor>> chunk;
    for (size_t i = begin; i < std::min(count, begin + evaluation.chunk_samples); ++i)
      chunk.push_back(evaluation.data->read(evaluation.samples[i]).inputs);
    if (begin == 0) session.run(chunk[0]);
    for (const auto& [outputs, ns] : session.run_many(chunk)) {
      times.push_back(ns);
      const Tensor& first = outputs.at(0);
      if (first.type() != DataType::kFloat)
        throw Error(Code::kInvalidInput,
                    fmt::format("[evaluate] the first output is {}; float32 was expected; put a float output first",
                                to_string(first.type())));
      result.outputs.append(first.values<float>());
      if (!evaluation.metrics.empty()) answers->append(outputs);
    }
  }
  result.measurement.latency = summarize_latency(std::move(times));
  measure_outputs(result.measurement, evaluation.reference, result.outputs, evaluation.labels);
  if (!evaluation.metrics.empty()) {
    const Answers& reference = evaluation.all_outputs ? *evaluation.all_outputs : *answers;
    measure_task(result.measurement, evaluation.metrics, *answers, reference, evaluation.truths);
    result.all_outputs = std::move(answers);
  }
  return result;
}

Trial evaluate(const Model& model, Trial trial, std::span<const Place> places, const Env& env,
               const Prefixes* prefixes) {
  if (trial.part != Part::kEvaluation) places = places.first(1);
  for (const Place& place : places) {
    Outcome outcome;
    try {
      EvaluationData evaluation = place.on(trial.part);
      std::optional<Prefixes::Suffix> suffix;
      if (prefixes && trial.part == Part::kSearch) suffix = prefixes->suffix(trial.plan, model);
      if (suffix) evaluation.data = suffix->data;
      auto session = place.runner->load(suffix ? suffix->model : model);
      outcome.measurement = measure(*session, evaluation, env).measurement;
      outcome.measurement->size_bytes = serialized_size(model);
    } catch (const DeviceGone&) {
      throw;
    } catch (const Error& error) {
      if (error.code() == Code::kInterrupted) throw;
      outcome = {{}, error.what()};
      env.log(LogLevel::kWarning, fmt::format("candidate {} failed on {}: {}", trial.id, place.device, error.what()));
    }
    if (&place != &places.front()) {
      trial.elsewhere[place.device] = std::move(outcome);
      continue;
    }
    trial.measurement = std::move(outcome.measurement);
    trial.failure = std::move(outcome.failure);
  }
  return trial;
}

TimedFiles time_in_turn(const std::vector<std::string>& files, const Place& place, const Env& env) {
  constexpr int64_t kRounds = 30;
  const EvaluationData& data = place.evaluation;
  TimedFiles result;
  try {
    std::vector<std::unique_ptr<Session>> sessions;
    for (const auto& file : files) sessions.push_back(place.runner->load_file(file));
    std::vector<std::vector<int64_t>> times(files.size());
    for (int64_t round = 0; round <= kRounds; ++round) {
      env.stop_if_cancelled("evaluate");
      const auto inputs = data.data->read(data.samples[static_cast<size_t>(round) % data.samples.size()]).inputs;
      for (size_t i = 0; i < sessions.size(); ++i) {
        int64_t ns = sessions[i]->run_timed(inputs).ns;
        if (round > 0) times[i].push_back(ns);
      }
      env.progress({"time", round, kRounds, "finalists in turn"});
    }
    for (auto& t : times) result.latencies.push_back(summarize_latency(std::move(t)));
  } catch (const DeviceGone&) {
    throw;
  } catch (const Error& error) {
    result.failure = error.what();
  }
  return result;
}

}  // namespace seqto::internal
