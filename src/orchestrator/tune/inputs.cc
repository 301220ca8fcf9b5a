#include "orchestrator/tune/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "metrics/limits.h"
#include "metrics/task/task_metric_kinds.h"
#include "model/op_traits.h"
#include "model/pair.h"
#include "model/unneeded.h"
#include "orchestrator/study/study_files.h"
#include "orchestrator/tune/improvements.h"
#include "quantization/plan/code_types.h"
#include "quantization/plan/model_refusal.h"
#include "quantization/read/computed_weights.h"
#include "quantization/read/random_nodes.h"
#include "runner/text/written_tokens.h"
#include "search/strategies/strategies.h"
#include "seqto/plan.h"
#include "seqto/recipe.h"
#include "seqto/runner.h"
#include "seqto/task.h"

namespace seqto::internal {
namespace {

constexpr const char* kRandomData =
    "the inputs are random numbers: sizes and latencies mean something, ranges, losses and the choice of layers do not";

using Starting = std::vector<std::future<std::unique_ptr<Runner>>>;

std::unique_ptr<Runner> runner_of(const TuneOptions& o, const std::string& device, const Env& env) {
  return is_own_device(o, device) ? o.own.devices.at(device)(env) : make_runner(device, o.runner, env);
}

// A worker takes as long to start as the model to be looked at and this process's own runtime to be loaded.
Starting start_runners(const TuneOptions& o, const Env& env) {
  Starting starting;
  const auto how = o.runner.isolated ? std::launch::async : std::launch::deferred;
  for (const std::string& device : o.devices)
    starting.push_back(std::async(how, [&o, &env, device] { return runner_of(o, device, env); }));
  return starting;
}

// Sorted. The user's patterns are about the model as it came: a BatchNormalization may be named that is folded next.
std::vector<LayerId> excluded_layers(const TuneOptions& o, Model model) {
  name_nodes(model);
  std::vector<LayerId> layers = expand_patterns(o.exclude, model);
  std::ranges::sort(layers);
  return layers;
}

void take_form(Inputs& in, Prepared prepared) {
  in.model = std::move(prepared.model);
  in.opsets.push_back(in.model.opset());
  std::ranges::move(prepared.actions, std::back_inserter(in.notes));
}

void take_text_errors(Inputs& in) {
  std::vector<std::string>& asked = in.options.metrics.metrics;
  if (!pair_of(in.model)) return;
  std::ranges::copy_if(asked, std::back_inserter(in.text_errors.asked), reads_texts);
  std::erase_if(asked, reads_texts);
  for (const std::string& text : in.text_errors.asked) {
    const std::string name = name_of_rate(text);
    const auto limits_it = [&](const Limit& limit) {
      return limit.figure == name || limit.figure == drop_figure(name);
    };
    in.judged_by_texts |=
        std::ranges::count(in.options.search.objectives, name) > 0 || std::ranges::any_of(in.options.limits, limits_it);
  }
  in.text_errors.options = in.options.dataset;
  in.text_errors.inputs = in.model.graph.free_inputs();
}

void open_cached_decoders(Inputs& in) {
  const TuneOptions& o = in.options;
  if (o.cached_decoders.empty()) return;
  if (std::ranges::count(o.search.objectives, "decode_latency") > 0 && !by_latency(o))
    throw Error(Code::kInvalidInput,
                "[tune] the objective decode_latency without latency found; of an encoder with its decoder both are "
                "expected, since the next token is timed with the points of the report; add latency");
  const std::optional<Pair> pair = pair_of(in.model);
  if (!pair)
    throw Error(Code::kUsage, "[tune] decoders with a cache and one model found; an encoder and its decoder expected");
  for (const auto& file : o.cached_decoders)
    in.cached_decoders.push_back(open_cached(file, in.model, *pair, o.quantize));
}

// Candidates are smaller by these, whatever their schemes save.
void note_export_notes(Inputs& in) {
  const int64_t bytes = export_note_bytes(in.model);
  if (bytes == 0) return;
  in.size_note = fmt::format("{} of the {} of the model are notes of its exporter, which candidates do not have",
                             format_bytes(bytes), format_bytes(in.model_bytes));
  in.notes.push_back(in.size_note);
}

void open_model(Inputs& in) {
  TuneOptions& o = in.options;
  in.model = load_model(o.model);
  take_text_errors(in);
  Model in_order = in.model;
  sort_nodes(in_order);
  check_model(in_order);
  in.external_files = in.model.external_files;
  in.model_sha256 = model_sha256(o.model, in.model);
  in.model_bytes = model_file_bytes(o.model, in.model);
  note_export_notes(in);
  refuse_trees(in.model);
  const std::vector<LayerId> excluded = excluded_layers(o, in.model);
  // The published procedure takes the model as it is.
  take_form(in, searches(o) ? tunable_form(in.model, o.quantize) : quantizable_form(in.model, o.quantize));
  for (const DetailedScheme& scheme : detailed_schemes(o))
    if (!scheme.fields.empty()) take_form(in, tunable_form(in.model, o.quantize, uniform_plan(in.model, scheme)));
  require_quantizable(in.model);
  for (const auto& patterns : o.groups.together) expand_patterns(patterns, in.model);  // a wrong name is found now
  for (const Node& node : in.model.graph.nodes)
    if (std::ranges::binary_search(excluded, node.name)) o.quantize.exclude.push_back(node.name);
  open_cached_decoders(in);
  in.target = target_of(o);
  if (!in.target) return;
  require_model_taken(in.model, *in.target);
  if (!has_static(o)) return;
  std::string left =
      take_target_layers(o.quantize, *in.target, in.model, refusal_by(in.target->device, o.runner, in.env));
  if (!left.empty()) in.notes.push_back(std::move(left));
}

// Most weights are those of MatMuls and LSTMs, as in models of text and of sequences: quantized while they run, they
// need no ranges that fit all inputs, and are fast. An LSTM has one scale for all tokens.
bool is_made_of_products(const Model& model, bool per_token) {
  int64_t products = 0, all = 0;
  const std::vector<Layer> found = layers(model);
  for (size_t i = 0; i < found.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    const bool recurrent = has(node, kRecurrent);
    if (!has(node, kProduct) && !recurrent) continue;
    all += found[i].weight_bytes;
    const bool takes = recurrent && !per_token && std::ranges::count(found[i].schemes, Scheme::kInt8Dynamic) > 0;
    if (is_matmul(node) || takes) products += found[i].weight_bytes;
  }
  return 2 * products > all;
}

// What depends on the model among the schemes that nobody asked for; a study that was begun with others keeps them.
void add_schemes_of(Inputs& in, const std::optional<Study>& begun) {
  TuneOptions& o = in.options;
  if (searches(o) && o.target.empty() && by_latency(o) && is_8_bits(o.quantize.weight_type) &&
      is_made_of_products(in.model, o.invariant))
    o.schemes.insert(o.schemes.begin() + 1, o.invariant ? "int8_dynamic+per_token=true" : "int8_dynamic");
  const nlohmann::json own = begun ? parse_json_if_any(begun->header().options_json) : nlohmann::json();
  if (own.is_object() && own.contains("schemes")) own["schemes"].get_to(o.schemes);
}

constexpr int64_t kFewestEvaluated = 16, kFewestSearched = 8, kFewestCalibrated = 8;

int64_t within(double seconds, double sample_seconds, int64_t fewest) {
  const double most = seconds / std::max(sample_seconds, 1e-9);
  return most < 1e9 ? std::max(fewest, static_cast<int64_t>(most)) : std::numeric_limits<int64_t>::max();
}

// Neither improvers nor what comes with them. Without latency among the objectives a search has none by itself.
bool leaves_improvers(const TuneOptions& o, const nlohmann::json& own) {
  if (o.improvers == default_improvers(Scheme::kInt8, o.quantize.activation_type)) return true;
  const QuantizeOptions d;
  return o.improvers == ImproveOptions{} && corrects_weights(o) && own.value("correct_weights", false) &&
         o.quantize.unify_concat == d.unify_concat && o.quantize.headroom_16_bits == d.headroom_16_bits;
}

// What nobody asked for is as the study has it that the run goes on with: one that was begun in the data set's own
// order, with other objectives, or without improvers, goes on so.
void go_on_as_begun(TuneOptions& o, const std::optional<Study>& study) {
  if (!study) return;
  const nlohmann::json own = parse_json_if_any(study->header().options_json);
  if (!own.is_object()) return;
  if (!own.contains("sample_order")) o.dataset.order = SampleOrder::kGiven;
  const QuantizeOptions quantize = quantize_options_from_json(own.value("quantize", nlohmann::json::object()).dump());
  if (searches(o) && o.fast_types) {  // those of the machine that it was begun on
    o.quantize.activation_type = quantize.activation_type;
    o.quantize.weight_type = quantize.weight_type;
    o.quantize.per_channel = quantize.per_channel;
    o.quantize.reduce_range = quantize.reduce_range;
    o.quantize.widen_float16 = quantize.widen_float16;
  }
  const ImproveOptions begun = improve_options_from_json(own.value("improvers", nlohmann::json::object()).dump());
  if (o.improvers != begun && o.improvers == recommended_improvers(Scheme::kInt8, o.quantize.activation_type))
    throw Error(Code::kInvalidInput,
                fmt::format("[study] --improve found, which learns layers of any width; the study in {} was begun "
                            "without it; leave it out to go on, or choose another folder",
                            o.output.string()));
  if (!leaves_improvers(o, own)) return;
  o.improvers = begun;
  o.quantize.unify_concat = quantize.unify_concat;
  o.quantize.headroom_16_bits = quantize.headroom_16_bits;
}

// Of the float model.
struct TimedSample {
  double seconds = 0;        // read and run
  double loading = 0;        // seconds, of the model
  int64_t answer_bytes = 0;  // of the largest answer
};

// The runtime's first run is slow.
TimedSample timed_sample(const Dataset& data, std::span<const int64_t> samples, Session& session,
                         const TimeBudget& time) {
  constexpr size_t kMost = 4;
  constexpr double kEnough = 1;
  TimedSample timed;
  const auto run = [&](size_t i) {
    int64_t bytes = 0;
    const std::vector<Tensor> outputs = run_sample(session, data.read(samples[i % samples.size()]));
    for (size_t o = 0; o < outputs.size(); ++o)
      if (!is_memory(session.output_names()[o]))
        bytes += outputs[o].element_count() * static_cast<int64_t>(sizeof(float));
    timed.answer_bytes = std::max(timed.answer_bytes, bytes);
  };
  run(0);
  const double begin = time.spent();
  size_t count = 0;
  while (count < kMost && (count == 0 || time.spent() - begin < std::min(kEnough, time.timing_a_sample())))
    run(count++);
  timed.seconds = (time.spent() - begin) / static_cast<double>(count);
  return timed;
}

// Samples whose answers, of a vocabulary at each position, are held in memory: the float model's and a candidate's.
int64_t fitting(const TimedSample& timed) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  return std::max<int64_t>(kFewestEvaluated, kMostBytes / std::max<int64_t>(timed.answer_bytes, 1));
}

// `count` of them, evenly spaced, since neighbours may be alike; all where that is no fewer.
std::vector<int64_t> evenly(const std::vector<int64_t>& samples, int64_t count) {
  if (count >= std::ssize(samples)) return samples;
  std::vector<int64_t> some;
  for (int64_t i = 0; i < count; ++i) some.push_back(samples[static_cast<size_t>(i * std::ssize(samples) / count)]);
  return some;
}

SampleCounts counts(const Split& split) {
  return {std::ssize(split.calibration), std::ssize(split.search), std::ssize(split.evaluation)};
}

// Whether the limit lasts for too few candidates to look at any on other samples than the report's. To make one takes
// about as long as to load the float model, then it is loaded itself and run on the fewest samples, after one to warm
// up.
bool lasts_for_few(const Inputs& in, const TimedSample& timed, const TimeBudget& time) {
  const TuneOptions& o = in.options;
  if (!traits_of(o.strategy).adapts || !o.workers.empty() || !o.dataset.states.empty()) return false;
  // Of quick ones thirty take seconds: a limit below that is short for the whole run, where a search does no harm.
  constexpr double kSlow = 0.25;
  const double candidate = 2 * timed.loading + static_cast<double>(kFewestEvaluated + 1) * timed.seconds;
  return candidate > kSlow && !time.lasts_for_search(candidate);
}

// Who is judged by texts writes one for each sample, token by token.
double runs_of_evaluation(const Inputs& in) {
  if (!in.judged_by_texts) return 1;
  return 1 + static_cast<double>(in.samples.data->read(in.samples.split.evaluation.front()).tokens.size());
}

// Times a sample of the float model on the first device. Takes as many samples as memory holds the answers of. Where
// the time is limited, tells `time` of it, and takes as many as the time lasts for. Recurrent sequences stay whole. A
// study that has begun keeps its samples.
void take_fewer_samples(Inputs& in, const std::optional<Study>& study, TimeBudget& time) {
  const TuneOptions& o = in.options;
  const Dataset& data = *in.samples.data;
  Split& split = in.samples.split;
  std::optional<SampleCounts> begun;
  if (study) begun = notes::kFewerSamples.in(*study).value_or(SampleCounts());
  const SampleCounts all = counts(split);
  SampleCounts wanted = all;
  TimedSample timed;
  {
    const double begin = time.spent();
    const auto session = in.devices.front().runner->load_file(o.model.string());
    const double loading = time.spent() - begin;
    timed = timed_sample(data, split.evaluation, *session, time);
    timed.loading = loading;
    in.sample_seconds = timed.seconds;
  }
  // A study that goes on has those that it began with, and the note of why.
  const int64_t fit = !begun                  ? fitting(timed)
                      : begun->evaluation > 0 ? begun->evaluation + begun->not_evaluated
                                              : all.evaluation;
  if (fit < all.evaluation) {
    wanted.evaluation = fit;
    wanted.search = std::min(all.search, std::max(kFewestSearched, fit / 2 * 2));
    in.notes.push_back(fmt::format(
        "the answers of {} of {} samples to evaluate on fit in 1 GB of memory, and are taken", fit, all.evaluation));
  }
  const SampleCounts held = wanted;
  if (const double seconds = in.sample_seconds; time.is_limited()) {
    std::shared_ptr<Session> own = in.runner->load_file(o.model.string());
    const auto inputs = std::make_shared<std::vector<Tensor>>(data.read(split.evaluation.front()).inputs);
    own->run(*inputs);
    time.took(seconds, [own, inputs] { own->run(*inputs); });
    if (!begun && o.dataset.states.empty())
      wanted = {within(time.calibration_pass(), seconds, kFewestCalibrated),
                std::min(wanted.search, within(time.search_pass(), seconds, kFewestSearched) / 2 * 2),
                std::min(wanted.evaluation,
                         within(time.evaluation_pass(), seconds * runs_of_evaluation(in), kFewestEvaluated))};
    if (!begun && lasts_for_few(in, timed, time)) {
      wanted.search = 0;
      wanted.evaluation = std::min(
          wanted.evaluation, within(time.short_evaluation_pass(), seconds * runs_of_evaluation(in), kFewestEvaluated));
    }
  }
  if (begun && begun->evaluation > 0) wanted = *begun;
  split.calibration = evenly(split.calibration, wanted.calibration);
  split.search = evenly(split.search, wanted.search);
  split.evaluation = evenly(split.evaluation, wanted.evaluation);
  const SampleCounts taken = counts(split);
  if (taken == all) return;
  in.fewer_samples = taken;
  if (taken == held) return;
  in.fewer_samples->not_evaluated = held.evaluation - taken.evaluation;
  in.notes.push_back(
      taken.search == 0 && held.search > 0
          ? fmt::format(
                "--max-time lasts for {} of {} samples to calibrate, {} of {} to evaluate on and few candidates: "
                "each is measured on these alone; more time in another folder searches on samples of its own",
                taken.calibration, held.calibration, taken.evaluation, held.evaluation)
          : fmt::format("--max-time lasts for {} of {} samples to calibrate, {} of {} to search on and {} of {} to "
                        "evaluate on; more time in another folder takes them all",
                        taken.calibration, held.calibration, taken.search, held.search, taken.evaluation,
                        held.evaluation));
}

void warn(Inputs& in, std::string note) {
  in.env.log(LogLevel::kWarning, note);
  in.notes.push_back(std::move(note));
}

void warn_of_kept_constants(Inputs& in) {
  std::vector<Scheme> schemes;
  for (const DetailedScheme& detailed : detailed_schemes(in.options)) schemes.push_back(detailed.scheme);
  for (std::string& note : kept_constants(in.model, schemes)) warn(in, std::move(note));
}

// A short limit leaves out what a longer one does unasked; a study that goes on may have it.
void note_hurry(Inputs& in, const std::optional<Study>& begun) {
  const TuneOptions& o = in.options;
  const auto in_weights = [](const DetailedScheme& detailed) { return is_weight_only(detailed.scheme); };
  if (begun && notes::kImprovedRanges.is_in(*begun)) return;
  if (!hurries_learning(o, in.model) || !corrects_weights(o) || o.improvers.learned_rounding) return;
  if (std::ranges::none_of(detailed_schemes(o), in_weights)) return;
  in.notes.push_back(
      "--max-time is short for this model: of weights that are stored in fewer bits the rounding is not learned; "
      "--improve learns it in a third of the time");
}

// Of the model that is tuned; an encoder and its decoder write their own tokens.
OpenData data_for(const Inputs& in) {
  const std::optional<Pair> pair = pair_of(in.model);
  if (!pair)
    return [inputs = in.model.graph.free_inputs()](const std::filesystem::path& path, const DatasetOptions& options) {
      return open_dataset(path, inputs, options);
    };
  return [joined = load_model(in.options.model), pair = *pair, &runner = *in.runner](const std::filesystem::path& path,
                                                                                     const DatasetOptions& options) {
    return open_pair_data(path, joined, pair, options, runner);
  };
}

}  // namespace

std::string no_candidate(const Inputs& in, const Plan& plan, const Model& model) {
  if (!in.target) return {};
  const std::vector<DetailedScheme> asked = detailed_schemes(in.options);
  for (const auto& [layer, scheme] : plan.schemes)
    if (std::ranges::count(asked, scheme, &DetailedScheme::scheme) == 0)
      return fmt::format("{} is none of the study's schemes", to_string(scheme));
  return first_refusal(model, *in.target);
}

std::vector<Tensor> first_inputs(const Inputs& in) {
  return in.samples.data->read(in.samples.split.evaluation.front()).inputs;
}

std::optional<Study> begun_study(const TuneOptions& o) {
  if (!o.resume || !is_begun(o.output)) return {};
  Study study = Study::read(StudyFolder{o.output}.study());
  if (study.trials().empty() && !notes::kLayers.is_in(study)) return {};
  return study;
}

Inputs open_inputs(const TuneOptions& asked, TimeBudget& time, const Env& env, Access access) {
  Inputs in{.options = resolved(asked), .env = env, .chose_objectives = !asked.search.objectives.empty()};
  in.options.dataset = with_files_beside(asked.model, asked.data, in.options.dataset, env);
  const std::optional<Study> begun = begun_study(in.options);
  go_on_as_begun(in.options, begun);
  const TuneOptions& o = in.options;
  validate(o);
  Starting starting = start_runners(o, env);
  open_model(in);
  if (std::string note = kept_bodies(in.model); !note.empty()) warn(in, std::move(note));
  for (std::string& note : random_nodes(in.model)) warn(in, std::move(note));
  if (asked.schemes.empty()) add_schemes_of(in, begun);
  warn_of_kept_constants(in);
  note_hurry(in, begun);
  if (access == Access::kWrite) make_writable_folder(o.output);
  RunnerOptions here = o.runner;
  here.isolated = false;
  in.runner = carry_states(make_runner("cpu", here, env), in.model, o.dataset);
  for (size_t i = 0; i < o.devices.size(); ++i)
    in.devices.push_back({o.devices[i], carry_states(starting[i].get(), in.model, o.dataset)});
  in.samples = open_samples(o, data_for(in));
  take_fewer_samples(in, begun, time);
  env.log(LogLevel::kInfo, in_words(in.samples));
  std::ranges::copy(in.samples.split.notes, std::back_inserter(in.notes));
  if (in.samples.data->is_random()) warn(in, kRandomData);
  return in;
}

}  // namespace seqto::internal
