#include "seqto/tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <future>
#include "base/json.h"

#include "base/files.h"
#include "orchestrator/study/note_tensors.h"
#include "orchestrator/study/notes.h"
#include "orchestrator/study/summarize.h"
#include "orchestrator/tune/best_so_far.h"
#include "orchestrator/tune/closing.h"
#include "orchestrator/tune/evaluate.h"
#include "orchestrator/tune/fewer_samples.h"
#include "orchestrator/tune/finalists.h"
#include "orchestrator/tune/first_plan.h"
#include "orchestrator/tune/improvements.h"
#include "orchestrator/tune/own_corrections.h"
#include "orchestrator/tune/placement.h"
#include "orchestrator/tune/predicted_latencies.h"
#include "orchestrator/tune/recipes.h"
#include "orchestrator/tune/samples.h"
#include "orchestrator/tune/search_groups.h"
#include "orchestrator/tune/search_loop.h"
#include "orchestrator/tune/tune_options.h"
#include "orchestrator/tune/tune_ranges.h"
#include "seqto/error.h"
#include "seqto/plan.h"
#include "seqto/runner.h"

namespace seqto {
namespace {

using namespace internal;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kNotRewritten = "not rewritten";  // the study's note: there was no time for it
constexpr const char* kRandomData =
    "the inputs are random numbers: sizes and latencies mean something, ranges, losses and the choice of layers do not";

void write(const Summary& summary, const fs::path& dir, const ReportOptions& options) {
  write_file_atomic(dir / "summary.json", summary_to_json(summary));
  write_report(summary, dir, options);
}

// Everything between the inputs and the finished study; one object so that its steps read as a list.
class Tuner {
 public:
  Tuner(const TuneOptions& options, const Env& env)
      : o_(resolved(options)),
        env_(env),
        time_(o_.max_time_seconds, env_),
        scheme_(quantized_scheme(o_)),
        chosen_objectives_(options.objectives) {}

  Summary run() {
    validate(o_);
    metrics_ = make_metrics(o_.metrics);
    prepare_inputs();
    open_study();
    measure_float();
    rewrite();
    measure_first_plan();
    ranges_ = tuned_ranges(o_, model_, *samples_.data, samples_.split.calibration, *runner_, *study_, env_);
    measure_references();
    if (!searches(o_)) rank(env_);  // its order is that of the search
    bool interrupted = !search();
    if (!interrupted && has_time(closing().analysis, "the error analysis and the tensors' values")) {
      const auto analyzed = in_time(time_, time_.part(1), env_, [this](const Env& env) {
        rank(env);
        note_tensors(*study_, model_, full(), *samples_.data, samples_.split.calibration, *runner_, env);
        return true;
      });
      if (!analyzed) left_out_.emplace_back("the error analysis and the tensors' values");
    }
    finish();
    Summary summary = read_summary(o_.output);
    write(summary, o_.output, {.plots = draws_plots_});
    if (interrupted || env_.cancelled())
      throw Error(Code::kInterrupted,
                  fmt::format("[tune] interrupted after {} trials; {} holds a report of them; run the same "
                              "command to go on",
                              study_->trials().size(), o_.output.string()));
    return summary;
  }

 private:
  // Where --max-time leaves none, the ending says what is missing.
  bool has_time(double seconds, const char* what) {
    if (time_.leaves(seconds)) return true;
    left_out_.emplace_back(what);
    return false;
  }

  Closing closing() const { return Closing::now(o_, time_); }

  // A worker takes as long to start as the model to be looked at and this process's own runtime to be loaded.
  void start_runners() {
    const auto how = o_.runner.isolated ? std::launch::async : std::launch::deferred;
    for (const std::string& device : o_.devices)
      starting_.push_back(std::async(how, [this, device] { return make_runner(device, o_.runner, env_); }));
  }

  void prepare_inputs() {
    start_runners();
    model_ = load_model(o_.model);
    Model in_order = model_;
    sort_nodes(in_order);
    check_model(in_order);
    external_files_ = model_.external_files;
    model_sha256_ = model_sha256(o_.model, model_);
    float_size_ = model_file_bytes(o_.model, model_);
    refuse_trees(model_);
    const std::vector<LayerId> excluded = excluded_layers();
    // The published procedure takes the model as it is.
    take_form(searches(o_) ? tunable_form(model_, o_.quantize) : quantizable_form(model_, o_.quantize));
    for (const DetailedScheme& scheme : detailed_schemes(o_))
      if (!scheme.fields.empty()) take_form(tunable_form(model_, o_.quantize, uniform_plan(model_, scheme)));
    require_quantizable(model_);
    for (const Node& node : model_.graph.nodes)
      if (std::ranges::binary_search(excluded, node.name)) o_.quantize.exclude.push_back(node.name);
    make_writable_folder(o_.output);
    RunnerOptions here = o_.runner;
    here.isolated = false;
    runner_ = carry_states(make_runner("cpu", here, env_), model_, o_.dataset);
    for (size_t i = 0; i < o_.devices.size(); ++i)
      places_.push_back({o_.devices[i], carry_states(starting_[i].get(), model_, o_.dataset), {}});
    samples_ = open_samples(o_, model_.graph.free_inputs());
    fewer_samples_.emplace(o_, o_.output / "study.jsonl", *samples_.data, places_.front(), *runner_, time_,
                           samples_.split);
    if (!fewer_samples_->text().empty()) ending_.notes.push_back(fewer_samples_->text());
    for (const auto& n : samples_.split.notes) ending_.notes.push_back(n);
    if (samples_.data->is_random()) {
      ending_.notes.push_back(kRandomData);
      env_.log(LogLevel::kWarning, kRandomData);
    }
    for (Place& place : places_) {
      place.evaluation.data = samples_.data.get();
      place.evaluation.samples = samples_.split.evaluation;
      place.evaluation.chunk_samples = static_cast<size_t>(o_.chunk_samples);
    }
    const auto half = static_cast<ptrdiff_t>((samples_.split.search.size() + 1) / 2);
    Place& first = places_.front();
    first.search = first.acceptance = first.evaluation;
    first.search.warm_up = first.acceptance.warm_up = false;
    first.search.samples = {samples_.split.search.begin(), samples_.split.search.begin() + half};
    first.acceptance.samples = {samples_.split.search.begin() + half, samples_.split.search.end()};
    ending_.objectives = o_.objectives;
    ending_.limits = o_.limits;
  }

  // Sorted. The user's patterns are about the model as it came: a BatchNormalization may be named that is folded next.
  std::vector<LayerId> excluded_layers() const {
    Model named = model_;
    name_nodes(named);
    std::vector<LayerId> layers = expand_patterns(o_.exclude, named);
    std::ranges::sort(layers);
    return layers;
  }

  void take_form(Prepared prepared) {
    model_ = std::move(prepared.model);
    opsets_.push_back(model_.opset());
    for (std::string& action : prepared.actions) ending_.notes.push_back(std::move(action));
  }

  void open_study() {
    StudyHeader header;
    header.model_path = o_.model.string();
    header.model_sha256 = model_sha256_;
    header.model_size_bytes = float_size_;
    header.data_fingerprint = samples_.data->fingerprint();
    header.options_json = options_json(o_);
    header.environment_json = environment_json(o_, places_);
    header.calibration_samples = static_cast<int64_t>(samples_.split.calibration.size());
    header.search_samples = static_cast<int64_t>(samples_.split.search.size());
    header.evaluation_samples = static_cast<int64_t>(samples_.split.evaluation.size());
    fs::path file = o_.output / "study.jsonl";
    if (!o_.resume) fs::remove(file);
    study_.emplace(Study::open(file, header));
    if (!study_->trials().empty())
      env_.log(LogLevel::kInfo, fmt::format("going on after {} trials", study_->trials().size()));
    if (const auto* text = study_->noted("ending")) ending_.wall_seconds = ending_from_json(*text).wall_seconds;
    if (const std::string& fewer = fewer_samples_->note(); !fewer.empty() && !study_->noted(kFewerSamples))
      study_->note(kFewerSamples, fewer);
    if (!study_->noted("layers")) study_->note("layers", layers_to_json(layers(model_)));
  }

  // Its outputs are the reference of every loss, so they are made anew in every run.
  void measure_float() {
    for (Place& place : places_) read_truths(place.evaluation, metrics_);
    // Plans are found by a loss; those that fresh samples are to confirm are judged by the task metric as well.
    if (std::ranges::any_of(o_.objectives, is_task_metric))
      read_truths(places_.front().acceptance, judging_metrics(o_));
    Trial trial;
    trial.id = "float";
    for (Place& place : places_) {
      auto session = place.runner->load_file(o_.model.string());
      for (EvaluationData* part : {&place.search, &place.acceptance}) {
        if (part->samples.empty()) continue;
        Evaluated evaluated = measure(*session, *part, env_);
        if (part == &place.acceptance) require_metrics(evaluated.measurement, o_.objectives, "acceptance");
        part->reference = std::move(evaluated.outputs);
        if (part->truths.empty() && part->labels.empty()) put_uncertain_first(*part);
        part->all_outputs = std::move(evaluated.all_outputs);
      }
      Evaluated evaluated = measure(*session, place.evaluation, env_);
      require_metrics(evaluated.measurement, o_.objectives, "evaluation");
      if (&place == &places_.front()) note_intervals(evaluated.measurement);
      for (float v : evaluated.outputs.values)
        if (!std::isfinite(v))
          throw Error(Code::kInvalidInput,
                      fmt::format("[evaluate] the float model's output on {} holds NaN or infinity; finite values were "
                                  "expected; check the model and the preprocessing",
                                  place.device));
      place.evaluation.reference = std::move(evaluated.outputs);
      place.evaluation.all_outputs = std::move(evaluated.all_outputs);
      if (&place == &places_.front()) settle_loss();
      place.evaluation.paired = o_.objectives;
      evaluated.measurement.size_bytes = float_size_;
      if (&place == &places_.front()) trial.measurement = std::move(evaluated.measurement);
      else trial.elsewhere[place.device].measurement = std::move(evaluated.measurement);
    }
    if (!study_->find("float")) study_->append(std::move(trial));
  }

  void note_intervals(const Measurement& measurement) {
    for (const std::string& name : o_.objectives)
      if (is_task_metric(name) && !measurement.intervals.contains(name))
        ending_.notes.push_back(
            fmt::format("{} has no interval, so nothing says which points the samples cannot tell apart; "
                        "--metric-resamples 200 runs its command so many times more for one",
                        name));
  }

  void settle_loss() {
    Place& first = places_.front();
    const auto [loss, reason] =
        default_loss(first.evaluation.reference, o_.dataset.states.size(), gives_class_rows(model_));
    if (chosen_objectives_.empty() && loss != "kl") {
      std::ranges::replace(o_.objectives, "kl", loss);
      ending_.objectives = o_.objectives;
      ending_.notes.push_back(fmt::format("{}: {} takes the place of kl", reason, loss));
    }
    if (followed_loss(o_.objectives) == "kl")
      if (const char* note = note_on_kl(first.evaluation.reference)) ending_.notes.push_back(note);
    // What static layers lose lies on many samples a little; what weights lose may lie on two of a hundred alone.
    first.search.pools = first.acceptance.pools = by_latency(o_) && followed_loss(o_.objectives) == "kl";
  }

  void rewrite() {
    if (o_.improvers.rewrites() && !study_->noted(kNotRewritten)) {
      auto rewritten = in_time(time_, time_.left(1.0 / 6), env_, [&](const Env& env) {
        return rewrite_for(model_, o_.improvers, o_.quantize, scheme_,
                           {*samples_.data, samples_.split.calibration, *runner_, env});
      });
      // Whoever goes on with the study has its model.
      if (!rewritten) study_->note(kNotRewritten, "true");
      else original_ = std::exchange(model_, *std::move(rewritten));
    }
    if (study_->noted(kNotRewritten)) left_out_.emplace_back("center, equalize and smooth");
    all_ = uniform_plan(model_, scheme_, o_.quantize.exclude);
    space_ = {.model = &model_, .exclusion_order = {}, .scheme = scheme_};
    space_.groups = search_groups(model_, detailed_schemes(o_), o_.quantize, o_.groups);
  }

  void measure_first_plan() {
    auto first = first_plan(o_, space_, *samples_.data, samples_.split.calibration, *runner_, *study_, env_);
    if (first) study_->append(evaluate(first->candidate, std::move(first->trial), places_, env_));
  }

  void measure_references() {
    auto named = named_ranges(o_, ranges_, model_, *samples_.data, samples_.split.calibration, *runner_, *study_, env_);
    const double start = time_.spent();
    Improvements improved = find_improvements(o_, model_, ranges_, named, *samples_.data, samples_.split.calibration,
                                              *runner_, *study_, time_, env_);
    learning_seconds_ = time_.spent() - start;
    if (improved.left_out) left_out_.emplace_back("improving some of the schemes");
    corrections_ = std::move(improved.corrections);
    quantizer_.emplace(model_, improved.ranges, o_.quantize);
    for (const auto& [name, ranges] : named) quantizer_->add_ranges(name, ranges);
    quantizer_ranges_ = std::move(named);
    quantizer_ranges_[""] = std::move(improved.ranges);
    own_corrections_.emplace(
        OwnCorrections::Context{.options = o_,
                                .model = model_,
                                .corrections = corrections_,
                                .data = *samples_.data,
                                .samples = samples_.split.calibration,
                                .observer = *runner_,
                                .judge = places_.front(),
                                .study = *study_,
                                .env = env_,
                                .worth_learning = [this](const Plan& plan, const Model& candidate) {
                                  return worth_learning(plan, candidate);
                                }});
    const double before = time_.spent();
    if (!published_settings(o_)) {
      // What size and losses are compared with stays the published quantization, whatever is searched.
      Plan plan = uniform_plan(original_ ? *original_ : model_, Scheme::kInt8);
      if (!study_->find("published")) measure_once("published", plan, published_candidate(plan));
    }
    // Then it is the search's own plans that a short time is for.
    constexpr double kPlans = 5;
    if (!searches(o_) || !study_->find("published") ||
        has_time(kPlans * (time_.spent() - before), "the fully quantized model in the search's own types"))
      measure_once("full", all_, full());
    if (!study_->noted("placement"))
      note_placement(places_, [this]() -> const Model& { return full(); }, first_inputs(), *study_);
  }

  const Model& full() { return full_ ? *full_ : full_.emplace(candidate(all_)); }

  std::vector<Tensor> first_inputs() const { return samples_.data->read(samples_.split.evaluation.front()).inputs; }

  Model candidate(const Plan& plan) { return apply(corrections_, quantizer_->quantize(plan), plan); }

  // With onnxruntime's defaults, of the model as it was given; made once, since that may take a calibration of its own.
  const Model& published_candidate(const Plan& plan) {
    if (published_) return *published_;
    const Model& model = original_ ? *original_ : model_;
    published_ranges_ =
        original_ ? calibrate(model, {*samples_.data, samples_.split.calibration, *runner_, env_}) : ranges_;
    return published_.emplace(Quantizer(model, published_ranges_, {}).quantize(plan));
  }

  void measure_once(const std::string& id, const Plan& plan, const Model& candidate) {
    if (study_->find(id)) return;
    Trial trial;
    trial.id = id;
    trial.plan = plan;
    trial = evaluate(candidate, std::move(trial), places_, env_);
    if (!trial.measurement)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[tune] the fully quantized model does not run: {}; it is what candidates are compared with",
                      trial.failure));
    study_->append(std::move(trial));
  }

  void rank(const Env& env) {
    if (const auto* text = study_->noted("sensitivity")) {
      sensitivity_ = sensitivity_from_json(*text);
      return;
    }
    // The published order comes from the static model in dynamic runs as well.
    Model quantized = scheme_ == Scheme::kInt8
                          ? full()
                          : Quantizer(model_, ranges_, {.exclude = o_.quantize.exclude})
                                .quantize(uniform_plan(model_, Scheme::kInt8, o_.quantize.exclude));
    sensitivity_ = analyze(model_, quantized, {*samples_.data, samples_.ranking, *runner_, env});
    study_->note("sensitivity", sensitivity_to_json(sensitivity_));
  }

  // What the limits ask for, as far as it is known before the finalists are timed, and while there is time.
  bool worth_learning(const Plan& plan, const Model& candidate) const {
    const bool bounded = std::isfinite(strategy_.max_size_bytes) || std::isfinite(strategy_.max_latency_ns);
    if (!bounded || !time_.leaves(learning_seconds_ + closing().kept(o_, time_))) return false;
    return static_cast<double>(serialized_size(candidate)) <= strategy_.max_size_bytes &&
           (!space_.latency_of || space_.latency_of(plan) <= strategy_.max_latency_ns);
  }

  void predict_latencies() {
    if (!study_->noted("latency model") && Closing::profile(o_, time_) > time_.part(0.2)) {
      left_out_.emplace_back("predicted latencies: the search followed size alone");
      return;
    }
    latencies_ = PredictedLatencies::of({.model = model_,
                                         .groups = space_.groups,
                                         .candidate = [this](const Plan& plan) { return candidate(plan); },
                                         .place = places_.front(),
                                         .inputs = first_inputs(),
                                         .study = *study_,
                                         .time = time_,
                                         .env = env_});
    if (latencies_) space_.latency_of = [this](const Plan& plan) { return (*latencies_)(plan); };
    else
      ending_.notes.push_back(fmt::format(
          "{} does not tell what its nodes cost: the search followed size alone, latencies are measured all the same",
          places_.front().device));
  }

  // False when interrupted.
  bool search() {
    space_.exclusion_order = exclusion_order(sensitivity_, model_);
    for (const auto& [id, scheme] : all_.schemes) space_.layers.push_back(id);
    space_.size_of = [this](const Plan& plan) { return serialized_size(candidate(plan)); };
    if (searches(o_) && by_latency(o_)) predict_latencies();
    if (!places_.front().search.samples.empty() && o_.dataset.states.empty()) {
      constexpr int64_t kPrefixBytes = 256 << 20;
      prefixes_.emplace(model_, *samples_.data, places_.front().search.samples, *places_.front().runner, kPrefixBytes);
    }
    strategy_ = {.threshold = o_.threshold,
                 .objectives = o_.objectives,
                 .evaluations = o_.search_evaluations,
                 .time_spent = time_.share_spent(o_.max_time_seconds / 3 + closing().kept(o_, time_)),
                 .front = o_.max_front,
                 .seed = o_.dataset.seed,
                 .racing = o_.racing};
    set_bounds(strategy_, o_.limits, space_);
    SearchLoop loop(
        {.options = o_,
         .env = env_,
         .study = *study_,
         .places = places_,
         .candidate = [this](const Plan& plan) { return candidate(plan); },
         .reported = [this](const Plan& plan) { return own_corrections_->corrected(plan, candidate(plan)); },
         .learn =
             [this](std::span<const Proposal> proposals) {
               return latencies_ && o_.strategy == "chain" && latencies_->learn_from(proposals, strategy_);
             },
         .prefixes = prefixes_ ? &*prefixes_ : nullptr,
         .ending = ending_,
         .time = time_,
         .closing_seconds = [this] { return closing().kept(o_, time_); }});
    const bool went_on = loop.run([&] { return make_strategy(o_.strategy, space_, strategy_); });
    const auto trials = static_cast<int64_t>(study_->trials().size());
    env_.progress({"evaluate", trials, trials, best_so_far(study_->trials(), study_->trials().back(), o_.objectives)});
    const auto looked = [](const Trial& t) { return t.part == Part::kSearch; };
    if (searches(o_) && !space_.groups.empty() && std::ranges::any_of(study_->trials(), looked)) {
      WhatIf learned = what_if(space_, strategy_, *study_);
      for (WhatIf::Group& group : learned.groups)
        for (WhatIf::Choice& choice : group.choices) choice.plan = with_fields(corrections_, std::move(choice.plan));
      study_->note("what if", what_if_to_json(learned));
    }
    return went_on;
  }

  // The front's plans become files; what the reports call finalists are those files, loaded by the runtime and timed in
  // turn.
  void finish() {
    fs::path float_file = o_.output / "models" / "float.onnx";
    if (external_files_.empty()) write_file_atomic(float_file, read_file(o_.model));
    else save_model(load_model(o_.model), float_file);
    std::vector<const Trial*> kept;
    if (const Trial* full = study_->find("full")) kept.push_back(full);
    for (size_t i : reportable(*study_, o_.objectives, searches(o_))) kept.push_back(&study_->trials()[i]);
    const fs::path plans = o_.output / "plans";
    const StudyFindings findings{opsets_,           model_sha256_, samples_, original_.has_value(),
                                 quantizer_ranges_, corrections_};
    const Recipe recipe = study_recipe(o_, findings);
    if (const Trial* published = study_->find("published")) {
      save_model(published_candidate(published->plan), o_.output / "models" / "published.onnx");
      save_recipe(published_recipe(recipe, published->plan, published_ranges_, plans), plans / "published.json");
    }
    Explained explained;
    for (const Trial* t : kept) {
      const Model made = own_corrections_->as_found(t->plan, candidate(t->plan));
      explained[t->id] = explain(model_, made, {.quantize = o_.quantize, .plan = t->plan});
      save_model(made, o_.output / "models" / (t->id + ".onnx"));
      const fs::path own = own_corrections_->file_of(t->plan);
      save_recipe(plan_recipe(recipe, findings, t->plan, own, plans), plans / (t->id + ".json"));
    }
    write_file_atomic(plans / "float.json", plan_to_json({}));
    study_->note("explained", explained_to_json(explained));
    // The published procedure times a few: beside trials that were timed at other moments none could be chosen.
    const bool comparable = searches(o_) || !by_latency(o_);
    if (comparable && has_time(closing().timing * static_cast<double>(kept.size() + 2) / 15, "finalists timed in turn"))
      time_finalists(*study_, places_, o_.output, searches(o_), ending_, time_, env_);
    if (std::string error = latencies_ ? latencies_->error() : ""; !error.empty())
      ending_.notes.push_back(std::move(error));
    if (o_.audit_samples > 0 && !env_.cancelled())
      ending_.notes.push_back(
          audit_selected(*study_, places_.front(), o_.output, ending_, o_.audit_samples, *runner_, env_));
    draws_plots_ = has_time(closing().drawing, "plots/*.svg, which `seqto report` draws");
    if (!left_out_.empty())
      ending_.notes.push_back(fmt::format("--max-time left none for {}", fmt::join(left_out_, "; ")));
    ending_.wall_seconds += time_.spent();
    study_->note("ending", ending_to_json(ending_));
  }

  TuneOptions o_;
  const Env& env_;
  TimeLimit time_;
  std::vector<std::string> left_out_;  // for want of time
  bool draws_plots_ = true;
  Scheme scheme_;
  std::vector<std::string> chosen_objectives_;  // empty: left to us
  Model model_;
  std::vector<fs::path> external_files_;
  std::string model_sha256_;
  std::vector<int64_t> opsets_;     // after each step of its preparation
  int64_t float_size_ = 0;          // with those files
  std::unique_ptr<Runner> runner_;  // the CPU, in this process: observers look into the runtime
  std::vector<std::future<std::unique_ptr<Runner>>> starting_;  // the devices', until they are places
  std::vector<Place> places_;                                   // where candidates are measured
  Metrics metrics_;
  Samples samples_;
  std::optional<FewerSamples> fewer_samples_;
  std::optional<Study> study_;
  std::optional<Model> original_;   // before it was rewritten
  std::optional<Model> published_;  // once it was asked for
  Ranges ranges_;                   // as calibrated
  Ranges published_ranges_;
  std::map<std::string, Ranges> quantizer_ranges_;  // by method; "": refined
  SchemeCorrections corrections_;
  std::optional<Quantizer> quantizer_;
  SearchSpace space_;
  StrategyOptions strategy_;
  double learning_seconds_ = 0;  // what corrections_ took
  std::optional<OwnCorrections> own_corrections_;
  std::optional<Model> full_;  // every layer quantized
  Plan all_;
  std::unique_ptr<PredictedLatencies> latencies_;
  std::optional<Prefixes> prefixes_;
  Sensitivity sensitivity_;
  Ending ending_;
};

}  // namespace

Summary tune(const TuneOptions& options, const Env& env) { return Tuner(options, env).run(); }

Summary report(const fs::path& dir) {
  Summary summary = read_summary(dir);
  write(summary, dir, {});
  return summary;
}

}  // namespace seqto
