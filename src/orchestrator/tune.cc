#include "seqto/tune.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "orchestrator/evaluate.h"
#include "orchestrator/notes.h"
#include "orchestrator/samples.h"
#include "orchestrator/summarize.h"
#include "seqto/error.h"
#include "seqto/patterns.h"
#include "seqto/recurrent.h"

namespace seqto {
namespace {

using namespace internal;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kRandomData =
    "the inputs are random numbers: sizes and latencies mean something, ranges, losses and the choice of layers do not";

CalibrateOptions calibration_of(const TuneOptions& o) {
  CalibrateOptions c = o.calibrate;
  c.op_types = o.quantize.op_types;
  c.activation_type = o.quantize.activation_type;
  if (o.strategy == "incremental") c.exact = true;
  return c;
}

// What differs from the published calibration, min-max.
json calibration_json(const CalibrateOptions& c) {
  const CalibrateOptions d;
  json j = json::object();
  if (c.method != d.method) j["method"] = to_string(c.method);
  for (const auto& [pattern, method] : c.tensor_methods) j["tensor_methods"].push_back({pattern, to_string(method)});
  if (!c.exact) j["exact"] = false;
  if (c.symmetric) j["symmetric"] = *c.symmetric;
  if (c.chunk_samples != d.chunk_samples) j["chunk_samples"] = c.chunk_samples;
  if (c.moving_average_constant != d.moving_average_constant) j["moving_average_constant"] = c.moving_average_constant;
  if (c.bins != d.bins) j["bins"] = c.bins;
  if (c.quantized_bins != d.quantized_bins) j["quantized_bins"] = c.quantized_bins;
  if (c.percentile != d.percentile) j["percentile"] = c.percentile;
  return j;
}

std::string options_json(const TuneOptions& o) {
  json j{{"strategy", o.strategy},
         {"schemes", o.schemes},
         {"exclude", o.exclude},
         {"calibration_samples", o.calibration_samples},
         {"evaluation_samples", o.evaluation_samples},
         {"ranking_samples", o.ranking_samples},
         {"device", o.devices.front()},
         {"quantize", json::parse(quantize_options_to_json(o.quantize))}};
  if (o.data == "random") j["data"] = "random";
  for (const StateLink& state : o.dataset.states) j["states"].push_back(state.output + "=" + state.input);
  if (o.devices.size() > 1) j["more_devices"] = std::vector(o.devices.begin() + 1, o.devices.end());
  if (json c = calibration_json(calibration_of(o)); !c.empty()) j["calibration"] = c;
  if (json i = json::parse(improve_options_to_json(o.improvers)); !i.empty()) j["improvers"] = i;
  return j.dump();
}

std::string environment_json(const TuneOptions& o, std::span<const Place> places) {
  utsname host{};
  ::uname(&host);
  std::string cpu;
  std::ifstream info("/proc/cpuinfo");  // absent on other systems: the report then has no processor's name
  for (std::string line; cpu.empty() && std::getline(info, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) cpu = line.substr(line.find(": ") + 2);
  json j{{"seqto", SEQTO_VERSION},
         {"runtime", places.front().runner->description()},
         {"threads", o.runner.threads},
         {"system", fmt::format("{} {} {}", host.sysname, host.release, host.machine)},
         {"cpu", cpu}};
  for (const Place& place : places.subspan(1)) j["also on"][place.device] = place.runner->description();
  return j.dump();
}

// What layers have that are not left in float: int8, or as in the published dynamic runs int8_dynamic.
Scheme quantized_scheme(const TuneOptions& o) {
  return std::find(o.schemes.begin(), o.schemes.end(), "int8_dynamic") != o.schemes.end() ? Scheme::kInt8Dynamic
                                                                                          : Scheme::kInt8;
}

bool published_settings(const TuneOptions& o) {
  return quantized_scheme(o) == Scheme::kInt8 && quantize_options_to_json(o.quantize) == quantize_options_to_json({}) &&
         o.improvers == ImproveOptions{};
}

void validate(const TuneOptions& o) {
  auto usage = [](std::string text) { throw Error(Code::kUsage, "[tune] " + std::move(text)); };
  if (o.calibration_samples < (o.calibration_data.empty() ? 1 : 0))
    usage(fmt::format("{} calibration samples found; at least 1 expected", o.calibration_samples));
  if (o.chunk_samples < 1) usage(fmt::format("chunks of {} samples found; at least 1 expected", o.chunk_samples));
  if (o.output.empty()) usage("no output folder found; name one with -o DIR");
  for (const auto& s : o.schemes) parse_scheme(s);
  auto count = [&](const char* scheme) { return std::count(o.schemes.begin(), o.schemes.end(), scheme); };
  if (count("float32") != 1 || count("int8") + count("int8_dynamic") != 1)
    usage(
        "strategy incremental chooses between one of int8 and int8_dynamic, and float32; give --schemes int8,float32");
  if (o.devices.empty()) usage("no device found; give --device cpu");
  for (const auto& device : o.devices)
    if (std::count(o.devices.begin(), o.devices.end(), device) > 1)
      usage(fmt::format("device {} found more than once; name each once", device));
  if (o.objectives.empty()) usage("no objectives found; give --objectives kl,size");
  for (const auto& name : o.objectives) objective(Measurement{}, name);
}

// Everything between the inputs and the finished study; one object so that its steps read as a list.
class Tuner {
 public:
  Tuner(const TuneOptions& options, const Env& env) : o_(options), env_(env), scheme_(quantized_scheme(options)) {}

  Summary run() {
    int64_t start = env_.clock_ns();
    validate(o_);
    prepare_inputs();
    open_study();
    measure_float();
    rewrite();
    calibrate_ranges();
    measure_references();
    rank();
    bool interrupted = !search(start);
    finish(start);
    Summary summary = report(o_.output);
    if (interrupted || env_.cancelled())
      throw Error(Code::kInterrupted,
                  fmt::format("[tune] interrupted after {} trials; {} holds a report of them; run the same "
                              "command to go on",
                              study_->trials().size(), o_.output.string()));
    return summary;
  }

 private:
  void prepare_inputs() {
    model_ = load_model(o_.model);
    check_model(model_);
    external_files_ = model_.external_files;
    require_quantizable(model_);
    Prepared prepared = quantizable_form(model_, o_.quantize);
    model_ = std::move(prepared.model);
    ending_.notes = std::move(prepared.actions);
    make_writable_folder(o_.output);
    RunnerOptions here = o_.runner;
    here.isolated = false;
    runner_ = carry_states(make_runner("cpu", here, env_), model_, o_.dataset);
    for (const auto& device : o_.devices)
      places_.push_back({device, carry_states(make_runner(device, o_.runner, env_), model_, o_.dataset), {}});
    Samples samples = open_samples(o_, model_.graph.free_inputs());
    data_ = std::move(samples.data);
    split_ = std::move(samples.split);
    ranking_ = std::move(samples.ranking);
    for (const auto& n : split_.notes) ending_.notes.push_back(n);
    if (data_->is_random()) {
      ending_.notes.push_back(kRandomData);
      env_.log(LogLevel::kWarning, kRandomData);
    }
    for (Place& place : places_) {
      place.evaluation.data = data_.get();
      place.evaluation.samples = split_.evaluation;
      place.evaluation.chunk_samples = static_cast<size_t>(o_.chunk_samples);
    }
    ending_.objectives = o_.objectives;
    o_.quantize.exclude = expand_patterns(o_.exclude, model_);
  }

  void open_study() {
    StudyHeader header;
    header.model_path = o_.model.string();
    header.model_sha256 = sha256_file(o_.model);
    for (const auto& file : external_files_) header.model_sha256 = sha256_hex(header.model_sha256 + sha256_file(file));
    header.model_size_bytes = float_size();
    header.data_fingerprint = data_->fingerprint();
    header.options_json = options_json(o_);
    header.environment_json = environment_json(o_, places_);
    header.calibration_samples = static_cast<int64_t>(split_.calibration.size());
    header.evaluation_samples = static_cast<int64_t>(split_.evaluation.size());
    fs::path file = o_.output / "study.jsonl";
    if (!o_.resume) fs::remove(file);
    study_.emplace(Study::open(file, header));
    if (!study_->trials().empty())
      env_.log(LogLevel::kInfo, fmt::format("going on after {} trials", study_->trials().size()));
    if (const auto* text = study_->noted("ending")) ending_.wall_seconds = ending_from_json(*text).wall_seconds;
    if (!study_->noted("layers")) study_->note("layers", layers_to_json(layers(model_)));
  }

  // Its outputs are the reference of every loss, so they are made anew in every run.
  void measure_float() {
    std::vector<int64_t> labels;
    if (data_->has_labels())
      for (int64_t i : split_.evaluation) labels.push_back(data_->read(i).label);
    Trial trial;
    trial.id = "float";
    for (Place& place : places_) {
      place.evaluation.labels = labels;
      auto session = place.runner->load_file(o_.model.string());
      Evaluated evaluated = measure(*session, place.evaluation, env_);
      for (float v : evaluated.outputs.values)
        if (!std::isfinite(v))
          throw Error(Code::kInvalidInput,
                      fmt::format("[evaluate] the float model's output on {} holds NaN or infinity; finite values were "
                                  "expected; check the model and the preprocessing",
                                  place.device));
      place.evaluation.reference = std::move(evaluated.outputs);
      evaluated.measurement.size_bytes = float_size();
      if (&place == &places_.front()) trial.measurement = std::move(evaluated.measurement);
      else trial.elsewhere[place.device].measurement = std::move(evaluated.measurement);
    }
    if (!study_->find("float")) study_->append(std::move(trial));
  }

  // Which part of each device runs what; a runtime that gives all to the CPU without a word is not what was asked for.
  void note_placement() {
    if (study_->noted("placement")) return;
    std::map<std::string, std::vector<NodePlacement>> by_device;
    auto inputs = data_->read(split_.evaluation.front()).inputs;
    for (const Place& place : places_) {
      if (place.device == "cpu") continue;
      auto nodes = place.runner->placement(*last_, inputs);
      if (nodes.empty()) continue;  // the runtime does not tell
      bool used = std::any_of(nodes.begin(), nodes.end(),
                              [](const NodePlacement& n) { return n.provider != "CPUExecutionProvider"; });
      if (!used)
        throw Error(Code::kUnavailable,
                    fmt::format("[tune] {} leaves all {} nodes of the fully quantized model to the CPU; a device that "
                                "runs some was expected; try other schemes, or --device cpu",
                                place.device, nodes.size()));
      by_device[place.device] = std::move(nodes);
    }
    if (!by_device.empty()) study_->note("placement", placements_to_json(by_device));
  }

  void rewrite() {
    if (o_.improvers.rewrites()) {
      original_ = model_;
      model_ = rewrite_for(model_, o_.improvers, o_.quantize, scheme_, *data_, split_.calibration, *runner_, env_);
    }
    all_ = uniform_plan(model_, scheme_, o_.quantize.exclude);
  }

  void calibrate_ranges() {
    if (const auto* text = study_->noted("ranges")) {
      ranges_ = ranges_from_json(*text);
      return;
    }
    ranges_ = calibrate(model_, *data_, split_.calibration, *runner_, calibration_of(o_), env_);
    study_->note("ranges", ranges_to_json(ranges_));
  }

  void measure_references() {
    Improved improved =
        improve(model_, ranges_, o_.quantize, all_, o_.improvers, *data_, split_.calibration, *runner_, env_);
    corrections_ = std::move(improved.corrections);
    quantizer_.emplace(model_, std::move(improved.ranges), o_.quantize);
    if (!published_settings(o_)) {
      // What size and losses are compared with stays the published quantization, whatever is searched.
      Plan plan = uniform_plan(original_ ? *original_ : model_, Scheme::kInt8);
      if (!study_->find("published")) measure_once("published", plan, published_candidate(plan));
    }
    last_ = candidate(all_);
    measure_once("full", all_, *last_);
    note_placement();
  }

  Model candidate(const Plan& plan) { return apply(corrections_, quantizer_->quantize(plan)); }

  // With onnxruntime's defaults, of the model as it was given; made once, since that may take a calibration of its own.
  const Model& published_candidate(const Plan& plan) {
    if (published_) return *published_;
    const Model& model = original_ ? *original_ : model_;
    Ranges own = original_ ? calibrate(model, *data_, split_.calibration, *runner_, {}, env_) : ranges_;
    return published_.emplace(Quantizer(model, std::move(own), {}).quantize(plan));
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

  void rank() {
    if (const auto* text = study_->noted("sensitivity")) {
      sensitivity_ = sensitivity_from_json(*text);
      return;
    }
    // The published order comes from the static model in dynamic runs as well.
    Model quantized = scheme_ == Scheme::kInt8
                          ? *last_
                          : Quantizer(model_, ranges_, {.exclude = o_.quantize.exclude})
                                .quantize(uniform_plan(model_, Scheme::kInt8, o_.quantize.exclude));
    sensitivity_ = analyze(model_, quantized, *data_, ranking_, *runner_, env_);
    study_->note("sensitivity", sensitivity_to_json(sensitivity_));
  }

  // False when interrupted.
  bool search(int64_t start) {
    SearchSpace space{&model_, exclusion_order(sensitivity_, model_), {}};
    for (const auto& [id, scheme] : all_.schemes) space.layers.push_back(id);
    auto strategy = make_strategy(o_.strategy, space, {.threshold = o_.threshold});
    const Trial& latest = study_->trials().back();
    if (latest.id != "full") last_ = candidate(latest.plan);
    while (auto proposal = strategy->next(*study_)) {
      if (env_.cancelled()) return false;
      double seconds = static_cast<double>(env_.clock_ns() - start) / 1e9;
      if (o_.max_time_seconds > 0 && seconds >= o_.max_time_seconds) return note_stop("--max-time");
      if (o_.max_evaluations > 0 && static_cast<int64_t>(study_->trials().size()) >= o_.max_evaluations)
        return note_stop("--max-evaluations");
      for (auto& [layer, scheme] : proposal->plan.schemes) scheme = scheme_;
      Model made = candidate(proposal->plan);
      if (equal(made, *last_)) continue;
      Trial trial;
      trial.id = proposal->plan.hash();
      trial.plan = std::move(proposal->plan);
      trial.excluded = std::move(proposal->excluded);
      try {
        trial = evaluate(made, std::move(trial), places_, env_);
      } catch (const Error& error) {
        if (error.code() == Code::kInterrupted) return false;
        throw;
      }
      last_ = std::move(made);
      std::string note = trial.measurement ? fmt::format("kl {:.4f}, {:.2f} MB", trial.measurement->losses.kl,
                                                         static_cast<double>(trial.measurement->size_bytes) / 1e6)
                                           : "failed";
      env_.progress({"evaluate", static_cast<int64_t>(trial.excluded.size()),
                     static_cast<int64_t>(space.exclusion_order.size()), note});
      study_->append(std::move(trial));
    }
    return true;
  }

  bool note_stop(const char* limit) {
    ending_.notes.push_back(fmt::format("stopped at {} after {} trials", limit, study_->trials().size()));
    return true;
  }

  // The front's plans become files; what the reports call finalists are those files, loaded by the runtime and timed in
  // turn.
  void finish(int64_t start) {
    fs::path float_file = o_.output / "models" / "float.onnx";
    if (external_files_.empty()) write_file_atomic(float_file, read_file(o_.model));
    else save_model(load_model(o_.model), float_file);
    std::vector<const Trial*> kept{study_->find("full")};
    std::set<size_t> on_a_front;
    for (size_t i : front_of(study_->trials(), o_.objectives)) on_a_front.insert(i);
    for (const std::string& device : other_devices(*study_))
      for (size_t i : front_of(trials_on(*study_, device), o_.objectives)) on_a_front.insert(i);
    for (size_t i : on_a_front) kept.push_back(&study_->trials()[i]);
    if (const Trial* published = study_->find("published")) {
      save_model(published_candidate(published->plan), o_.output / "models" / "published.onnx");
      write_file_atomic(o_.output / "plans" / "published.json", plan_to_json(published->plan));
    }
    for (const Trial* t : kept) {
      save_model(candidate(t->plan), o_.output / "models" / (t->id + ".onnx"));
      write_file_atomic(o_.output / "plans" / (t->id + ".json"), plan_to_json(t->plan));
    }
    write_file_atomic(o_.output / "plans" / "float.json", plan_to_json({}));
    time_finalists();
    ending_.wall_seconds += static_cast<double>(env_.clock_ns() - start) / 1e9;
    study_->note("ending", ending_to_json(ending_));
  }

  int64_t float_size() const {
    auto size = fs::file_size(o_.model);
    for (const auto& file : external_files_) size += fs::file_size(file);
    return static_cast<int64_t>(size);
  }

  void time_finalists() {
    if (env_.cancelled()) return;  // the reports then have the trials' latencies
    Summary summary = summarize(*study_, o_.output, ending_);
    time_on(places_.front(), summary);
    for (size_t i = 1; i < places_.size(); ++i)
      for (const DeviceFront& found : summary.elsewhere)
        if (found.device == places_[i].device) time_on(places_[i], found);
  }

  void time_on(const Place& place, const DeviceFront& found) {
    std::vector<std::string> ids{"float", "full"}, files;
    if (!found.fully_quantized.trial.measurement) ids.pop_back();
    for (const auto& id : found.top)
      if (id != "full") ids.push_back(id);
    for (const auto& id : ids) files.push_back((o_.output / "models" / (id + ".onnx")).string());
    TimedFiles timed = time_in_turn(files, place, env_);
    if (env_.cancelled()) return;
    if (!timed.failure.empty()) {
      ending_.notes.push_back(
          fmt::format("finalists could not be timed again on {}, their latencies are the trials': {}", place.device,
                      timed.failure));
      return;
    }
    for (size_t i = 0; i < ids.size(); ++i) ending_.latencies[place.device][ids[i]] = timed.latencies[i];
  }

  TuneOptions o_;
  const Env& env_;
  Scheme scheme_;
  Model model_;
  std::vector<fs::path> external_files_;
  std::unique_ptr<Runner> runner_;  // the CPU, in this process: observers look into the runtime
  std::vector<Place> places_;       // where candidates are measured
  std::unique_ptr<Dataset> data_;
  Split split_;
  std::vector<int64_t> ranking_;  // samples of the error analysis
  std::optional<Study> study_;
  std::optional<Model> original_;   // before it was rewritten
  std::optional<Model> published_;  // once it was asked for
  Ranges ranges_;                   // as calibrated
  Corrections corrections_;
  std::optional<Quantizer> quantizer_;
  std::optional<Model> last_;  // the candidate before; equal ones are skipped
  Plan all_;
  Sensitivity sensitivity_;
  Ending ending_;
};

}  // namespace

Summary tune(const TuneOptions& options, const Env& env) { return Tuner(options, env).run(); }

Summary report(const fs::path& dir) {
  Study study = Study::read(dir / "study.jsonl");
  Ending ending;
  ending.objectives = {"kl", "size"};
  if (const auto* text = study.noted("ending")) ending = ending_from_json(*text);
  Summary summary = summarize(study, dir, ending);
  write_file_atomic(dir / "summary.json", summary_to_json(summary));
  write_report(summary, dir);
  return summary;
}

}  // namespace seqto
