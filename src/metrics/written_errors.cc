#include "metrics/written_errors.h"

#include <utility>

#include "metrics/task/error_rates.h"
#include "runner/text/written_tokens.h"
#include "seqto/error.h"

namespace seqto::internal {

WrittenScores written_errors(const WrittenErrors& how, const Model& model, const SampleRun& on) {
  const auto pair = pair_of(model);
  if (!pair)
    throw Error(Code::kInvalidInput, "[metric] a model that is no encoder with its decoder found; one expected");
  Writer writer(model, *pair, how.options, on.runner);
  std::vector<std::string> said;
  std::vector<Tokens> written;
  for (const int64_t index : on.samples) {
    on.env.stop_if_cancelled("evaluate");
    Sample sample = on.data.read(index);
    if (!sample.transcript) continue;
    Values given;
    for (size_t i = 0; i < how.inputs.size(); ++i) given[how.inputs[i].name] = std::move(sample.inputs[i]);
    said.push_back(*std::move(sample.transcript));
    written.push_back(writer.write(std::move(given)));
  }
  WrittenScores scores{said.size(), {}};
  for (const std::string& asked : how.asked) {
    const std::string name = name_of_rate(asked);
    scores.rates[name] = error_rate(name, said, written_texts(written, asked.substr(name.size() + 1)));
  }
  return scores;
}

void measure_written(Measurement& measurement, const WrittenErrors& how, const Model& model, const SampleRun& on) {
  for (auto& [name, score] : written_errors(how, model, on).rates) {
    measurement.metrics[name] = score.value;
    measurement.lower_is_better.insert(name);
    measurement.intervals[name] = percentile_interval(score.replicates);
    measurement.replicates[name] = std::move(score.replicates);
  }
}

}  // namespace seqto::internal
