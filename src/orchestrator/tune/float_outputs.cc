#include "orchestrator/tune/float_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/loss/output_values.h"
#include "metrics/node_by_node.h"
#include "metrics/task/task_metric_kinds.h"
#include "metrics/zero_scores.h"
#include "orchestrator/tune/first_front.h"
#include "seqto/error.h"
#include "seqto/task.h"
#include "seqto/validate.h"

namespace seqto::internal {
namespace {

std::vector<Place> places_of(const Inputs& in) {
  const TuneOptions& o = in.options;
  const Split& split = in.samples.split;
  std::vector<Place> places;
  for (const Device& device : in.devices) {
    Place& place = places.emplace_back(Place{.device = device.name, .runner = device.runner.get()});
    place.evaluation.data = in.samples.data.get();
    place.evaluation.samples = split.evaluation;
    place.evaluation.chunk_samples = static_cast<size_t>(o.message_samples);
  }
  const auto half = split.search.begin() + static_cast<ptrdiff_t>((split.search.size() + 1) / 2);
  Place& first = places.front();
  first.search = first.acceptance = first.evaluation;
  first.search.warm_up = first.acceptance.warm_up = false;
  first.search.samples = {split.search.begin(), half};
  first.acceptance.samples = {half, split.search.end()};
  if (in.judged_by_texts)
    for (Place& place : places) place.evaluation.texts = &in.text_errors;
  return places;
}

// What the model says to the first sample.
struct First {
  Sample sample;
  std::vector<Tensor> answer;
  Outputs outputs;
};

First first_answer(const Inputs& in, Session& session) {
  First first{.sample = in.samples.data->read(in.samples.split.evaluation.at(0))};
  first.answer = run_sample(session, first.sample);
  append_outputs(first.outputs, first.answer, "[evaluate]", first.sample.counted);
  return first;
}

// What the model is for: as asked, or as that answer looks.
Reading read_task(const Inputs& in, const First& first) {
  Reading reading = find_reading(in.options.metrics, in.model,
                                 {.outputs = first.outputs, .sample = first.sample, .model = in.options.model});
  const bool pools = reading.task->embeds && reading.pooling != Pooling::kWhole;
  const bool may_be_values = reading.task->name == "classify" && !in.samples.data->has_labels();
  const bool may_be_classes = reading.task->name == "raw" && first.outputs.dims.size() == 4;
  const char* unsure = may_be_values    ? "; --task regress where they are values"
                       : may_be_classes ? "; --task segment where they are scores of classes"
                                        : "";
  in.env.log(LogLevel::kInfo,
             fmt::format("task: {}{}{}{}", reading.task->name,
                         pools ? fmt::format(", by the {} of positions", to_string(reading.pooling)) : "",
                         reading.detector.empty() ? "" : ", read as " + reading.detector,
                         reading.reason.empty() ? "" : fmt::format(" ({}{})", reading.reason, unsure)));
  if (const std::string note = note_on_missing_boxes(in.options.metrics, reading.detector); !note.empty())
    in.env.log(LogLevel::kWarning, note);
  return reading;
}

// Why a metric that nobody asked for has nothing to score in such answers; empty: it has.
std::string unfit(const std::string& metric, const Inputs& in, const Reading& reading, const First& first) {
  const std::vector<int64_t>& dims = first.outputs.dims;
  if (metric == "perplexity")
    if (const std::string why = no_token_scores(first.outputs.row(0).size(), first.sample.tokens.size()); !why.empty())
      return why + " found; scores of the next token for each expected";
  const auto& shape = in.model.graph.outputs.at(first.outputs.place).shape;
  const bool one_length = shape && shape->size() == 3 && (*shape)[1].value > 0;
  if (metric == "topk_overlap" && reading.pooling == Pooling::kWhole && dims.size() == 3 && !one_length)
    return "--pooling whole gives texts of several lengths embeddings of several; mean, first or last expected";
  return {};
}

// With what the task reports unasked.
MetricOptions metrics_of(const Inputs& in, const Reading& reading, const First& first, Ending& ending) {
  MetricOptions metrics = read_with(in.options.metrics, reading);
  for (std::string& name : unasked_metrics(reading, first.sample, std::ssize(in.samples.split.evaluation))) {
    if (std::ranges::count(metrics.metrics, name) > 0) continue;
    if (const std::string why = unfit(name, in, reading, first); !why.empty()) {
      ending.notes.push_back(fmt::format("{} is not reported: {}", name, why));
      in.env.log(LogLevel::kWarning, ending.notes.back());
    } else {
      metrics.metrics.push_back(std::move(name));
    }
  }
  return metrics;
}

// Plans are found by a loss; those that fresh samples are to confirm are judged by the task metric as well.
void read_judges(Place& first, const TuneOptions& o) {
  if (std::ranges::none_of(o.search.objectives, is_task_metric)) return;
  read_truths(first.acceptance, judging_metrics(o));
  if (o.own.strategy) read_truths(first.search, judging_metrics(o));
}

// Texts are written by those that are reported alone.
std::vector<std::string> judges_of_acceptance(const Inputs& in) {
  std::vector<std::string> objectives = in.options.search.objectives;
  for (const std::string& asked : in.text_errors.asked) std::erase(objectives, name_of_rate(asked));
  return objectives;
}

Measurement measure_reference(EvaluationData& part, Session& session, const Env& env) {
  Evaluated evaluated = measure(session, part, env);
  part.reference = std::move(evaluated.outputs);
  part.all_outputs = std::move(evaluated.all_outputs);
  part.float_scores = evaluated.scores;
  return std::move(evaluated.measurement);
}

// Where states go from sample to sample, a part begins as in the session of a candidate: at zero, not where the part
// before it ended.
void begin_part(std::unique_ptr<Session>& session, Runner& runner, const Inputs& in) {
  if (!in.options.dataset.states.empty()) session = runner.load_file(in.options.model.string());
}

// In the order that candidates run in: that of the data where states go from sample to sample.
Measurement measure_searched(EvaluationData& part, Session& session, const Inputs& in) {
  Measurement measured = measure_reference(part, session, in.env);
  const bool is_sequence = !in.options.dataset.states.empty();
  if (part.truths.empty() && part.labels.empty() && !is_sequence) put_uncertain_first(part);
  return measured;
}

// Of a decoder that remembers, where it takes what it gave.
std::optional<DecodeStep> decode_step(const Reading& reading, const First& first, Session& session) {
  if (reading.task->name != "generate") return {};
  auto step = find_decode_step(session.input_names(), session.output_names());
  const auto next = step ? next_inputs(*step, first.sample.inputs, first.answer) : std::nullopt;
  if (!next) return {};
  try {
    session.run(*next);
  } catch (const DeviceGone&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == Code::kInterrupted) throw;
    return {};
  }
  return step;
}

bool is_fault(float value) { return !std::isfinite(value) && value != -std::numeric_limits<float>::infinity(); }

bool holds_numbers(const Outputs& outputs, int64_t row) {
  const auto any = [&](const Outputs& o) {
    return std::ranges::any_of(o.row(row), [](float v) { return std::isfinite(v); });
  };
  return outputs.row(row).empty() || any(outputs) || std::ranges::any_of(outputs.others, any);
}

// -inf keeps what it stands for from being chosen. NaN and infinity are masks where they have the same places in every
// sample. Beside masks there are numbers. The first sample where they are something else.
std::optional<int64_t> first_at_fault(const Outputs& outputs) {
  const auto first = outputs.row(0);
  for (int64_t row = 0; row < outputs.rows; ++row) {
    const auto here = outputs.row(row);
    if (!holds_numbers(outputs, row)) return row;
    if (std::ranges::none_of(first, is_fault) && std::ranges::none_of(here, is_fault)) continue;
    const auto same = [](float a, float b) { return is_fault(a) == is_fault(b); };
    const bool is_mask = std::ranges::equal(first, here, same);
    if (!is_mask) return std::ranges::any_of(here, is_fault) ? row : 0;
  }
  return {};
}

void require_finite(const Place& place, const Inputs& in) {
  const Outputs& outputs = place.evaluation.reference;
  const std::optional<int64_t> row = first_at_fault(outputs);
  if (!row) return;
  const Sample sample = in.samples.data->read(place.evaluation.samples.at(static_cast<size_t>(*row)));
  const std::string origin = first_not_finite(in.model, *in.runner, sample.inputs);
  throw Error(Code::kInvalidInput,
              fmt::format("[evaluate] the float model's output on {} holds NaN or infinity for sample '{}'{}; finite "
                          "values were expected; check the model there and the preprocessing",
                          place.device, sample.name, origin.empty() ? "" : ", from " + origin));
}

// Candidates have the figures that the float model has. A token behind a cache is timed at the end, with latencies.
void require_limited_figures(const Inputs& in, const Measurement& measured, const Ending& ending) {
  std::vector<Limit> limits = with_loss(ending.limits, followed_loss(ending.objectives));
  if (!in.cached_decoders.empty() && by_latency(in.options))
    std::erase_if(limits, [](const Limit& limit) { return limit.figure.starts_with("decode_latency"); });
  if (!limits.empty()) check(figures_of(measured, measured), limits);
}

void note_intervals(const Measurement& measurement, Ending& ending) {
  for (const std::string& name : ending.objectives)
    if (is_task_metric(name) && !measurement.intervals.contains(name))
      ending.notes.push_back(
          fmt::format("{} has no interval, so nothing says which points the samples cannot tell apart; "
                      "--metric-resamples 200 runs its command so many times more for one",
                      name));
}

void note_zero_scores(const Measurement& measurement, const Env& env, Ending& ending) {
  std::string note = note_on_zero_scores(measurement);
  if (note.empty()) return;
  env.log(LogLevel::kWarning, note);
  ending.notes.push_back(std::move(note));
}

void log_class_numbers(const Place& place, const Env& env) {
  const EvaluationData& on = place.evaluation;
  if (!on.all_outputs) return;
  const std::string note = note_on_class_numbers(on.metrics, *on.all_outputs, on.truths);
  if (!note.empty()) env.log(LogLevel::kInfo, note);
}

void read_as(const Reading& reading, const Inputs& in, std::span<Place> places, Ending& ending) {
  for (Place& place : places)
    for (EvaluationData* part : {&place.evaluation, &place.search, &place.acceptance}) {
      part->form = reading.outputs();
      if (!reading.detector.empty()) part->detector = parse_decoder(reading.detector, "the outputs");
    }
  ending.task = reading.task->name;
  for (std::string note :
       {note_on_shares(reading.detector), note_on_missing_boxes(in.options.metrics, reading.detector)})
    if (!note.empty()) ending.notes.push_back(std::move(note));
  if (in.chose_objectives || reading.task->loss == "kl") return;
  std::ranges::replace(ending.objectives, "kl", std::string(reading.task->loss));
  if (!reading.reason.empty())
    ending.notes.push_back(fmt::format("{}: {} takes the place of kl", reading.reason, reading.task->loss));
}

bool decodes(const Inputs& in, const Place& first) { return first.evaluation.decode || !in.cached_decoders.empty(); }

void require_next_step(const Inputs& in, const Place& first) {
  if (!decodes(in, first) && std::ranges::count(in.options.search.objectives, "decode_latency") > 0)
    throw Error(Code::kInvalidInput,
                "[tune] the objective decode_latency and a model without a next step found; a decoder with inputs "
                "input_ids and past_* and outputs present_* expected; leave the objective out");
}

void aim_at_decoding(const Inputs& in, const Place& first, Ending& ending) {
  if (decodes(in, first) && !in.chose_objectives && by_latency(in.options))
    ending.objectives.emplace_back("decode_latency");
}

// What is to be known of the loss that the study goes by.
void settle_loss(const Inputs& in, const Outputs& outputs, Place& first, Ending& ending) {
  const bool by_kl = followed_loss(ending.objectives) == "kl";
  if (const char* note = by_kl ? note_on_kl(outputs) : nullptr) ending.notes.emplace_back(note);
  // What static layers lose lies on many samples a little; what weights lose may lie on two of a hundred alone.
  first.search.pools = first.acceptance.pools = by_kl && by_latency(in.options);
}

}  // namespace

std::vector<Place> measure_float(const Inputs& in, OpenStudy& study) {
  std::vector<Place> places = places_of(in);
  std::vector<std::unique_ptr<Session>> sessions;
  for (const Place& place : places) sessions.push_back(place.runner->load_file(in.options.model.string()));
  const First answer = first_answer(in, *sessions.front());
  const Reading reading = read_task(in, answer);
  read_as(reading, in, places, study.ending);
  for (size_t p = 0; p < places.size(); ++p) places[p].evaluation.decode = decode_step(reading, answer, *sessions[p]);
  require_next_step(in, places.front());
  aim_at_decoding(in, places.front(), study.ending);
  TuneOptions options = in.options;
  options.metrics = metrics_of(in, reading, answer, study.ending);
  const Metrics metrics = make_metrics(options.metrics, options.own.metrics);
  for (Place& place : places) read_truths(place.evaluation, metrics);
  read_judges(places.front(), options);
  Trial trial;
  trial.id = "float";
  for (size_t p = 0; p < places.size(); ++p) {
    Place& place = places[p];
    auto session = std::move(sessions[p]);
    for (EvaluationData* part : {&place.search, &place.acceptance}) {
      if (part->samples.empty()) continue;
      begin_part(session, *place.runner, in);
      const Measurement measured = measure_searched(*part, *session, in);
      if (part == &place.acceptance) require_metrics(measured, judges_of_acceptance(in), "acceptance");
      if (part == &place.search) write_first_front(in, study, place, measured);
    }
    begin_part(session, *place.runner, in);
    Measurement measured = measure_reference(place.evaluation, *session, in.env);
    if (place.evaluation.texts) measure_texts(measured, load_model(in.options.model), place, in.env);
    require_metrics(measured, in.options.search.objectives, "evaluation");
    const bool is_first = &place == &places.front();
    if (is_first) note_intervals(measured, study.ending);
    if (is_first) log_class_numbers(place, in.env);
    if (is_first) note_zero_scores(measured, in.env, study.ending);
    require_finite(place, in);
    if (is_first) settle_loss(in, answer.outputs, place, study.ending);
    place.evaluation.paired = study.ending.objectives;
    measured.size_bytes = in.model_bytes;
    if (is_first) require_limited_figures(in, measured, study.ending);
    if (is_first) trial.measurement = std::move(measured);
    else trial.elsewhere[place.device].measurement = std::move(measured);
  }
  if (in.target) leave_out_of_front(trial, no_candidate(in, {}, load_model(in.options.model)));
  if (!study.study.find("float")) study.study.append(std::move(trial));
  return places;
}

std::vector<Place> measure_float_again(const Inputs& in, OpenStudy& study, FloatRuns runs) {
  std::vector<Place> places = places_of(in);
  Place& first = places.front();
  auto session = first.runner->load_file(in.options.model.string());
  const First answer = first_answer(in, *session);
  const Reading reading = read_task(in, answer);
  read_as(reading, in, places, study.ending);
  first.evaluation.decode = decode_step(reading, answer, *session);
  for (const auto& [device, outcome] : study.study.find("float")->elsewhere)
    for (Place& place : places)
      if (place.device == device && outcome.measurement && outcome.measurement->decode_latency)
        place.evaluation.decode = first.evaluation.decode;
  aim_at_decoding(in, first, study.ending);
  settle_loss(in, answer.outputs, first, study.ending);
  if (runs == FloatRuns::kNone) return places;
  TuneOptions options = in.options;
  options.metrics = metrics_of(in, reading, answer, study.ending);
  read_judges(first, options);
  for (EvaluationData* part : {&first.search, &first.acceptance}) {
    if (part->samples.empty()) continue;
    begin_part(session, *first.runner, in);
    measure_searched(*part, *session, in);
  }
  return places;
}

}  // namespace seqto::internal
