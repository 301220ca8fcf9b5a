#include "orchestrator/tune/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "metrics/loss/output_values.h"
#include "metrics/loss/softmax.h"
#include "metrics/task/task_metric_kinds.h"
#include "runner/of_sample.h"
#include "seqto/error.h"

namespace seqto::internal {

namespace {

// In the order given.
Outputs rows_of(const Outputs& outputs, std::span<const size_t> rows) {
  Outputs result = outputs.without_rows();
  result.dims = outputs.dims;
  for (const size_t row : rows) result.append_of_any_length(outputs.row(static_cast<int64_t>(row)));
  for (const Outputs& other : outputs.others) result.others.push_back(rows_of(other, rows));
  return result;
}

// Looks at the losses of every sample once.
class Heat {
 public:
  Heat(std::optional<InRace> race, const EvaluationData& evaluation) : race_(race), evaluation_(evaluation) {}

  bool over(const Outputs& outputs) {
    if (!race_ || outputs.rows == seen_) return false;
    Outputs wanted = evaluation_.reference.without_rows(), found = outputs.without_rows();
    wanted.dims = evaluation_.reference.dims, found.dims = outputs.dims;
    for (; seen_ < outputs.rows; ++seen_) {
      wanted.append_of_any_length(evaluation_.reference.row(seen_));
      found.append_of_any_length(outputs.row(seen_));
    }
    std::ranges::copy(compare_each(wanted, found), std::back_inserter(losses_));
    return race_->race.is_over(losses_, race_->size_bytes);
  }

 private:
  std::optional<InRace> race_;
  const EvaluationData& evaluation_;
  int64_t seen_ = 0;
  std::vector<Losses> losses_;
};

// Behind each of the first prompts.
class DecodeTimes {
 public:
  DecodeTimes(Session& session, const EvaluationData& evaluation) : session_(session), step_(evaluation.decode) {}

  void add(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
    if (!step_ || times_.size() >= kTimedPrompts) return;
    if (const auto next = next_inputs(*step_, inputs, outputs)) times_.push_back(session_.time(*next, 2).back());
  }
  std::optional<Latency> latency() const {
    return times_.empty() ? std::nullopt : std::optional(summarize_latency(times_));
  }

 private:
  Session& session_;
  const std::optional<DecodeStep>& step_;
  std::vector<int64_t> times_;
};

// As an error calls samples that went to the device together.
std::string names_of(const std::vector<std::string>& samples) {
  return samples.size() > 1 ? fmt::format("one from {} to {}", samples.front(), samples.back()) : samples.front();
}

}  // namespace

Outputs first_rows(const Outputs& outputs, int64_t rows) {
  std::vector<size_t> first(static_cast<size_t>(rows));
  std::iota(first.begin(), first.end(), size_t{0});
  return rows_of(outputs, first);
}

const char* note_on_kl(const Outputs& outputs) {
  if (outputs.columns == 0) return nullptr;
  const auto classes = static_cast<size_t>(outputs.classes());
  for (int64_t i = 0; i < outputs.rows; ++i)
    for (auto row = outputs.row(i); !row.empty();)
      if (!are_shares(take_scores(row, classes))) return nullptr;
  return "the output holds probabilities already: kl, of their softmax as published, is small even where first classes "
         "differ; look at top1_disagreement too";
}

void read_truths(EvaluationData& evaluation, Metrics metrics) {
  evaluation.metrics = std::move(metrics);
  if (evaluation.metrics.empty() && !evaluation.data->has_labels()) return;
  const bool whole = evaluation.form.pooling == Pooling::kNone && !evaluation.form.classes_second;
  for (int64_t i : evaluation.samples) {
    Truth truth = truth_of(evaluation.data->read(i));
    if (evaluation.data->has_labels() && whole) evaluation.labels.push_back(truth.label);
    if (!evaluation.metrics.empty()) evaluation.truths.push_back(std::move(truth));
  }
}

void require_metrics(const Measurement& measurement, std::span<const std::string> objectives, const char* part) {
  for (const std::string& name : objectives)
    if (is_task_metric(name) && !measurement.metrics.contains(name))
      throw Error(Code::kInvalidInput,
                  fmt::format("[tune] the objective {} and no sample with a label among those of the {} found; some "
                              "expected; give --labels FILE.csv, or an array y beside the inputs{}",
                              name, part, kOfFixedBatch));
}

void measure_texts(Measurement& measurement, const Model& model, const Place& place, const Env& env) {
  const EvaluationData& on = place.evaluation;
  if (on.texts) measure_written(measurement, *on.texts, model, {*on.data, on.samples, *place.runner, env});
}

Evaluated measure(Session& session, const EvaluationData& evaluation, const Env& env, std::optional<InRace> race,
                  const Dataset* inputs) {
  Evaluated result;
  result.outputs = evaluation.form;
  std::vector<int64_t> times;
  auto answers = std::make_shared<Answers>(answer_names(session.output_names()));
  const size_t count = evaluation.samples.size();
  Heat heat(race, evaluation);
  DecodeTimes decode(session, evaluation);
  std::vector<Origin> origins;
  const auto names = result.outputs.names = answers->names;
  if (evaluation.detector) result.scores.emplace();
  for (size_t begin = 0; begin < count && !heat.over(result.outputs); begin += evaluation.chunk_samples) {
    env.stop_if_cancelled("evaluate");
    std::vector<std::vector<Tensor>> chunk;
    std::vector<std::string> chunk_names;
    std::vector<std::vector<char>> counted;
    for (size_t i = begin; i < std::min(count, begin + evaluation.chunk_samples); ++i) {
      Sample sample = (inputs ? inputs : evaluation.data)->read(evaluation.samples[i]);
      chunk.push_back(std::move(sample.inputs));
      chunk_names.push_back(std::move(sample.name));
      counted.push_back(std::move(sample.counted));
      origins.push_back({sample.source, sample.position});
    }
    const auto answered = of_sample(names_of(chunk_names), [&] {
      if (begin == 0 && evaluation.warm_up) session.run(chunk[0]);
      return session.run_many(chunk);
    });
    for (size_t i = 0; i < answered.size(); ++i) {
      const std::vector<Tensor> outputs = answers_among(answered[i].outputs, session.output_names());
      times.push_back(answered[i].ns);
      decode.add(chunk[i], answered[i].outputs);
      append_outputs(result.outputs, outputs, "[evaluate]", counted[i]);
      if (!evaluation.metrics.empty()) answers->append(outputs, counted[i]);
      if (result.scores) {
        Answers one(names);
        one.append(outputs);
        add_scores(*result.scores, *evaluation.detector, one, 0);
      }
    }
  }
  result.measurement.latency = summarize_latency(std::move(times));
  result.measurement.decode_latency = decode.latency();
  result.measurement.blocks = blocks_of(origins);
  if (result.outputs.rows < evaluation.reference.rows)
    measure_outputs(result.measurement, first_rows(evaluation.reference, result.outputs.rows), result.outputs, {});
  else measure_outputs(result.measurement, evaluation.reference, result.outputs, evaluation.labels, evaluation.paired);
  if (evaluation.pools) result.measurement.pooled_kl = pooled_kl(evaluation.reference, result.outputs);
  if (!evaluation.metrics.empty()) {
    const Answers& reference = evaluation.all_outputs ? *evaluation.all_outputs : *answers;
    measure_task(result.measurement, evaluation.metrics, *answers, reference, evaluation.truths);
    result.all_outputs = std::move(answers);
  }
  return result;
}

void put_uncertain_first(EvaluationData& evaluation) {
  const Outputs& outputs = evaluation.reference;
  const auto count = static_cast<size_t>(outputs.rows);
  std::vector<double> sure(count);
  for (size_t i = 0; i < count; ++i) {
    auto row = outputs.row(static_cast<int64_t>(i));
    if (row.empty()) return;
    const auto classes = static_cast<size_t>(outputs.classes());
    while (!row.empty())
      for (double share : softmax(take_scores(row, classes))) sure[i] += share * share;
  }
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::less(), [&](size_t i) { return std::isnan(sure[i]) ? 1.0 : sure[i]; });
  std::vector<int64_t> samples;
  for (size_t i : order) samples.push_back(evaluation.samples[i]);
  evaluation.reference = rows_of(outputs, order);
  evaluation.samples = std::move(samples);
}

std::vector<std::vector<int64_t>> times_in_turn(std::span<const std::unique_ptr<Session>> sessions,
                                                const std::function<std::vector<Tensor>(int64_t round)>& inputs,
                                                const std::function<bool(int64_t round)>& goes_on) {
  std::vector<std::vector<int64_t>> times(sessions.size());
  for (int64_t round = 0; goes_on(round); ++round) {
    const std::vector<Tensor> given = inputs(round);
    for (size_t turn = 0; turn < sessions.size(); ++turn) {
      const size_t i = round % 2 == 0 ? turn : sessions.size() - 1 - turn;  // what drifts meets all alike
      const int64_t ns = sessions[i]->time(given, 2).back();
      if (round > 0) times[i].push_back(ns);
    }
  }
  return times;
}

void leave_out_of_front(Trial& trial, const std::string& why) {
  if (trial.measurement) trial.failure = why;
  for (auto& [device, outcome] : trial.elsewhere)
    if (outcome.measurement) outcome.failure = why;
}

Trial evaluate(const Model& model, Trial trial, const Evaluation& on, const std::optional<Race>& race) {
  const auto places = trial.part == Part::kEvaluation ? on.places : on.places.first(1);
  for (const Place& place : places) {
    Outcome outcome;
    try {
      if (on.target) require_taken(model, *on.target);
      const EvaluationData& evaluation = place.on(trial.part);
      std::optional<Prefixes::Suffix> suffix;
      if (on.prefixes && trial.part == Part::kSearch) suffix = on.prefixes->suffix(trial.plan, model);
      auto session = place.runner->load(suffix ? suffix->model : model);
      const int64_t size = serialized_size(model);
      std::optional<InRace> in_race;
      if (race) in_race.emplace(*race, size);
      Evaluated found = measure(*session, evaluation, on.env, in_race, suffix ? suffix->data : nullptr);
      const bool whole = found.outputs.rows == evaluation.reference.rows;
      if (!on.is_reference && whole && found.scores && evaluation.float_scores)
        require_alive(*found.scores, *evaluation.float_scores, *evaluation.detector);
      outcome.measurement = std::move(found.measurement);
      outcome.measurement->size_bytes = size;
      if (trial.part == Part::kEvaluation) measure_texts(*outcome.measurement, model, place, on.env);
    } catch (const DeviceGone&) {
      throw;
    } catch (const Error& error) {
      if (error.code() == Code::kInterrupted) throw;
      outcome = {{}, error.what()};
      on.env.log(LogLevel::kWarning,
                 fmt::format("candidate {} failed on {}: {}", trial.id, place.device, error.what()));
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

}  // namespace seqto::internal
