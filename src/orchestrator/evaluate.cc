#include "orchestrator/evaluate.h"

#include <fmt/format.h>

#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto::internal {

Evaluated measure(Session& session, const EvaluationData& evaluation, const Env& env) {
  Evaluated result;
  std::vector<int64_t> times;
  for (size_t i = 0; i < evaluation.samples.size(); ++i) {
    env.stop_if_cancelled("evaluate");
    Sample sample = evaluation.data->read(evaluation.samples[i]);
    if (i == 0) session.run(sample.inputs);
    int64_t start = env.clock_ns();
    auto outputs = session.run(sample.inputs);
    times.push_back(env.clock_ns() - start);
    const Tensor& first = outputs.at(0);
    if (first.type() != DataType::kFloat)
      throw Error(Code::kInvalidInput,
                  fmt::format("[evaluate] the first output is {}; float32 was expected; put a float "
                              "output first",
                              to_string(first.type())));
    result.outputs.append(first.values<float>());
  }
  result.measurement.latency = summarize_latency(std::move(times));
  if (evaluation.reference.rows > 0) result.measurement.losses = compare(evaluation.reference, result.outputs);
  if (!evaluation.labels.empty()) result.measurement.metrics = task_metrics(result.outputs, evaluation.labels);
  return result;
}

Trial evaluate(const Model& model, Trial trial, Runner& runner, const EvaluationData& evaluation, const Env& env) {
  try {
    auto session = runner.load(model);
    trial.measurement = measure(*session, evaluation, env).measurement;
    trial.measurement->size_bytes = serialized_size(model);
  } catch (const Error& error) {
    if (error.code() == Code::kInterrupted) throw;
    trial.measurement.reset();
    trial.failure = error.what();
    env.log(LogLevel::kWarning, fmt::format("candidate {} failed: {}", trial.id, error.what()));
  }
  return trial;
}

}  // namespace seqto::internal
