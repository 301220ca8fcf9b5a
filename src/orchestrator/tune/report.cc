#include "orchestrator/tune/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/files.h"
#include "data/datasets.h"
#include "metrics/loss/other_shapes.h"
#include "metrics/zero_scores.h"
#include "model/pair.h"
#include "orchestrator/study/study_files.h"
#include "orchestrator/study/summarize.h"
#include "orchestrator/tune/course.h"
#include "orchestrator/tune/error_analysis.h"
#include "orchestrator/tune/finalists.h"
#include "orchestrator/tune/first_front.h"
#include "orchestrator/tune/improvements.h"
#include "orchestrator/tune/own_corrections.h"
#include "seqto/error.h"
#include "seqto/recipe.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

// Of the report, which is whole without it: it comes after hours, and again when the study goes on.
template <class F>
void optional_step(const char* what, const Inputs& in, OpenStudy& study, F step) {
  if (in.env.cancelled()) return;
  try {
    step();
  } catch (const DeviceGone&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != Code::kInterrupted)
      study.ending.notes.push_back(fmt::format("{} is not shown: {}", what, error.what()));
  }
}

void analyze_layers(const Inputs& in, OpenStudy& study, References& r, TimeBudget& time) {
  constexpr const char* kWhat = "the error analysis and the tensors' values";
  if (!time.has_time(Closing::now(in.options, time).analysis, kWhat)) return;
  optional_step(kWhat, in, study, [&] {
    const auto analyzed = in_time(time, time.analyzing(), in.env, [&](const Env& env) {
      ranked(in, study.study, r, env);
      note_tensors(in, study.study, r, env);
      return true;
    });
    if (!analyzed) time.leave_out(kWhat);
  });
}

// The trials whose plans become files.
std::vector<const Trial*> kept_trials(const TuneOptions& o, const OpenStudy& study) {
  std::vector<const Trial*> kept;
  if (const Trial* full = study.study.find("full")) kept.push_back(full);
  for (size_t i : reportable(study.study, study.ending.objectives, searches(o)))
    kept.push_back(&study.study.trials()[i]);
  return kept;
}

void write_float(const Inputs& in) {
  const fs::path file = StudyFolder{in.options.output}.model("float");
  if (in.external_files.empty()) write_file_atomic(file, read_file(in.options.model));
  else save_model(load_model(in.options.model), file);
  write_file_atomic(StudyFolder{in.options.output}.plan("float"), plan_to_json({}));
}

StoredFile store_corrections(const fs::path& folder, const fs::path& file) {
  return store(folder, "corrections", ".npz", read_file(file));
}

// Beyond what one protobuf holds a plan needs the data again.
constexpr int64_t kLargestRewritten = int64_t{1} << 31;

// What all plans of the study have in common. What was learned goes to the folder of the plans.
Recipe study_recipe(const Inputs& in, const References& r) {
  const TuneOptions& o = in.options;
  const std::vector<int64_t>& calibration = in.samples.split.calibration;
  Recipe recipe{.quantize = r.base.quantize,
                .opsets = in.opsets,
                .fold_batch_norms = folds_batch_norms(o),
                .improvers = o.improvers,
                .rewritten_for = quantized_scheme(o),
                .calibrate = calibration_of(o),
                .sample_order = o.dataset.order,
                .model_sha256 = in.model_sha256,
                .samples_sha256 = samples_sha256(*in.samples.data, calibration)};
  if (!r.base.original)
    for (const Improver& i : improvers())
      if (i.kind == ImproverKind::kModel) recipe.improvers.*i.option = false;
  for (int64_t index : calibration) recipe.calibration_samples.push_back(index - in.samples.calibration_begin);
  const fs::path folder = StudyFolder{o.output}.plans();
  for (const auto& [method, ranges] : r.learned.in_use) recipe.ranges[method] = store_ranges(folder, ranges);
  if (!r.learned.corrections.empty())
    recipe.corrections.push_back(store_corrections(folder, corrections_file(o.output)));
  if (r.base.original && serialized_size(r.base.model) < kLargestRewritten)
    recipe.rewritten = store(folder, "rewritten", ".onnx", serialize(r.base.model));
  return recipe;
}

// Of one of its plans, with its fields. `own`: the file of the corrections that it alone takes; empty: it takes none.
Recipe plan_recipe(const Recipe& study, Plan plan, const fs::path& own, const fs::path& folder) {
  Recipe recipe = study;
  recipe.plan = std::move(plan);
  if (!own.empty()) recipe.corrections.push_back(store_corrections(folder, own));
  return recipe;
}

Recipe published_recipe(const Recipe& study, const Published& published, const fs::path& folder) {
  Recipe recipe = study;
  recipe.plan = published.plan;
  recipe.quantize = published.quantize;
  recipe.corrections.clear();
  recipe.rewritten.reset();
  recipe.ranges = {{"", store_ranges(folder, published.ranges)}};
  recipe.calibrate = published.calibrate;
  recipe.improvers = {};
  return recipe;
}

// What the reports call finalists are these files, loaded by the runtime and timed in turn.
void write_models(const std::vector<const Trial*>& kept, const Inputs& in, OpenStudy& study, References& r,
                  TimeBudget& time) {
  const StudyFolder folder{in.options.output};
  const Recipe recipe = study_recipe(in, r);
  if (study.study.find("published")) {
    // A study that goes on has its files, but where it was killed before its report.
    if (!r.published && !fs::exists(folder.plan("published")))
      optional_step("the model ort-int8", in, study, [&] { r.published = published_model(in, r); });
    if (r.published) {
      save_model(r.published->model, folder.model("published"));
      save_recipe(published_recipe(recipe, *r.published, folder.plans()), folder.plan("published"));
    }
  }
  const OwnCorrections own(
      {workbench(in, r.base, study.study, time), r.quantizer, r.learned.corrections, r.places.front(), {}, {}});
  Explained explained;
  for (const Trial* t : kept) {
    const Model made = own.as_found(t->plan);
    explained[t->id] = explain(r.base.model, made, {.quantize = r.base.quantize, .plan = t->plan});
    save_model(made, folder.model(t->id));
    const Plan written = r.written(t->plan);
    save_recipe(plan_recipe(recipe, written, own.file_of(t->plan), folder.plans()), folder.plan(t->id));
  }
  notes::kExplained.add(study.study, explained);
}

// `note`, which takes so many runs of the float model on the samples of the evaluation; the report is whole without it.
template <class F>
void note_in_time(const char* what, double runs, const Inputs& in, OpenStudy& study, TimeBudget& time, F note) {
  const auto run = static_cast<double>(study.study.find("float")->measurement->latency.median_ns) / 1e9;
  if (!in.env.cancelled() && time.has_time(run * runs, what)) optional_step(what, in, study, note);
}

// It emulates sums one by one: how long that takes, only the clock tells.
void note_audit(const Inputs& in, OpenStudy& study, const Place& place, TimeBudget& time) {
  constexpr const char* kWhat = "the audit of the selected model";
  const auto samples = static_cast<double>(audited_samples(in));
  if (samples == 0) return;
  note_in_time(kWhat, samples, in, study, time, [&] {
    const double left = in.options.max_time_seconds - time.spent();
    const auto audit = [&](const Env& env) { return audit_selected(in, study, place, env); };
    if (auto note = in_time(time, left, in.env, audit)) study.ending.notes.push_back(*std::move(note));
    else time.leave_out(kWhat);
  });
}

void note_other_shapes(const TuneOptions& o, OpenStudy& study) {
  const Trial* selected = study.study.find(summarize(study.study, o.output, study.ending).selected);
  if (std::string note = note_on_other_shapes(study.study.trials(), selected); !note.empty())
    study.ending.notes.push_back(std::move(note));
}

// What a search went by that saw nothing.
void note_silent_loss(const Env& env, OpenStudy& study) {
  if (followed_loss(study.ending.objectives) != "kl") return;
  std::string note = note_on_silent_kl(study.study.trials());
  if (note.empty()) return;
  env.log(LogLevel::kWarning, note);
  study.ending.notes.push_back(std::move(note));
}

void note_changed_tokens(const Inputs& in, OpenStudy& study, const Place& place, TimeBudget& time) {
  if (!shows_tokens(in, study, place)) return;
  const auto runs = static_cast<double>(place.evaluation.samples.size());
  note_in_time("where the next token changes", runs, in, study, time, [&] {
    if (const auto changed = changed_tokens(in, study, place)) notes::kChangedTokens.add(study.study, *changed);
  });
}

void note_fault(const Inputs& in, OpenStudy& study, const Place& place, TimeBudget& time) {
  note_in_time("whether the runtime computes what the selected model says", 4 * kVerifiedSamples, in, study, time, [&] {
    if (std::string fault = fault_of_selected(in, study, place); !fault.empty())
      study.ending.notes.push_back(std::move(fault));
  });
}

void note_text_errors(const Inputs& in, OpenStudy& study, const Place& place, TimeBudget& time) {
  if (in.text_errors.asked.empty() || in.judged_by_texts) return;
  // A run for each token, by two models.
  const Outputs& reference = place.evaluation.reference;
  const auto tokens =
      static_cast<double>(reference.values.size()) / static_cast<double>(std::max<int64_t>(1, reference.classes()));
  note_in_time("the rate of errors in written texts", 2 * tokens, in, study, time,
               [&] { std::ranges::move(text_errors(in, study, place), std::back_inserter(study.ending.notes)); });
}

// Of an encoder and its decoder, beside the model of both: models/selected/ENCODER.onnx and DECODER.onnx.
void write_halves(const Pair& pair, const fs::path& file, const fs::path& folder) {
  const auto [encoder, decoder] = take_apart(load_model(file), pair);
  save_model(encoder, folder / (pair.encoder.file + ".onnx"));
  save_model(decoder, folder / (pair.decoder.file + ".onnx"));
}

// Those that decoders with a cache are measured on: as many as there is time for.
std::vector<int64_t> samples_for_steps(const Inputs& in, TimeBudget& time) {
  constexpr double kSeconds = 60, kRuns = 8;  // of a sample's time: both pairs, four tokens each
  constexpr size_t kMost = 64;
  const auto fit = static_cast<size_t>(kSeconds / (kRuns * std::max(in.sample_seconds, 1e-6)));
  std::vector<int64_t> samples = in.samples.split.evaluation;
  samples.resize(std::min({samples.size(), kMost, std::max<size_t>(1, fit)}));
  const double seconds = kRuns * in.sample_seconds * static_cast<double>(samples.size() * in.cached_decoders.size());
  if (!time.has_time(seconds, "what the decoders with a cache answer")) samples.clear();
  return samples;
}

// Plans of an encoder and its decoder, whose other files have them too.
class PairPlans {
 public:
  PairPlans(const Inputs& in, OpenStudy& study, References& r, TimeBudget& time)
      : in_(in),
        r_(r),
        own_({workbench(in, r.base, study.study, time), r.quantizer, r.learned.corrections, r.places.front(), {}, {}}),
        pair_(*pair_of(in.model)) {}

  // `use` of the pair under one of the study's plans.
  template <class F>
  void with(const Plan& plan, F use) {
    std::vector<Corrections> found = own_.found(plan);
    const Model model = r_.quantizer.quantize(plan, found);
    std::map<std::string, CalibrateOptions> calibrate{{"", calibration_of(in_.options)}};
    for (const auto& [method, ranges] : r_.learned.in_use)
      if (!method.empty()) calibrate[method] = calibration_named(method, calibration_of(in_.options));
    use(SelectedPair{r_.base.as_given(), r_.base.model, model, pair_, r_.base.quantize, plan, std::move(found),
                     std::move(calibrate)});
  }

 private:
  const Inputs& in_;
  References& r_;
  OwnCorrections own_;
  Pair pair_;
};

// Decoders with a cache, under the selected plan, by the names of their files; notes tell what they do.
std::map<fs::path, Model> carried_decoders(const Inputs& in, OpenStudy& study, References& r, TimeBudget& time) {
  std::map<fs::path, Model> carried;
  if (in.cached_decoders.empty()) return carried;
  const TuneOptions& o = in.options;
  const Trial* trial = study.study.find(summarize(study.study, o.output, study.ending).selected);
  const PairData data{*in.samples.data, o.dataset, in.samples.split.calibration, samples_for_steps(in, time),
                      *in.runner,       in.env};
  PairPlans(in, study, r, time).with(trial ? trial->plan : Plan(), [&](const SelectedPair& selected) {
    for (const CachedDecoder& decoder : in.cached_decoders) {
      CarriedDecoder made = carry(decoder, selected, data);
      std::ranges::move(made.notes, std::back_inserter(study.ending.notes));
      carried[decoder.file.filename()] = std::move(made.model);
    }
  });
  return carried;
}

// Of an encoder and its decoder: the finalists' next token behind a cache, where latency is an objective. Ranges change
// no latency, so those of one sample do.
void time_cached(const Inputs& in, OpenStudy& study, References& r, TimeBudget& time) {
  const Place& place = r.places.front();
  const CachedDecoder& decoder = in.cached_decoders.front();
  const PairData data{
      *in.samples.data, in.options.dataset, {in.samples.split.calibration.front()}, {}, *place.runner, in.env};
  const Pair pair = *pair_of(in.model);
  const Model& given = r.base.as_given();
  std::vector<std::string> ids{"float"};
  std::vector<Model> decoders{decoder.whole};
  const auto add = [&](const SelectedPair& planned) { decoders.push_back(carry(decoder, planned, data).model); };
  PairPlans plans(in, study, r, time);
  double longest = 0;
  const auto timed = study.ending.latencies.find(place.device);
  if (timed == study.ending.latencies.end()) return;  // what has no latency cannot compete by it
  for (const auto& [id, latency] : timed->second) {
    const Trial* trial = study.study.find(id);
    if (!trial || id == "float") continue;
    if (!time.has_time(longest, "the next token of finalists")) return;
    const double begin = time.spent();
    if (id != "published") {
      plans.with(trial->plan, add);
    } else {
      if (!r.published) r.published = published_model(in, r);  // an earlier run measured it
      add({given, given, r.published->model, pair, {}, r.published->plan, {}, {{"", {}}}});
    }
    ids.push_back(id);
    longest = std::max(longest, time.spent() - begin);
  }
  const auto step = step_inputs(decoder, given, pair, data);
  const std::vector<Latency> latencies = time_steps(decoders, step, place, time, in.env);
  for (size_t i = 0; i < latencies.size(); ++i) study.ending.decode_latencies[place.device][ids[i]] = latencies[i];
}

}  // namespace

void name_selected(const Inputs& in, Summary& summary) {
  const StudyFolder folder{in.options.output};
  const fs::path file = folder.model(summary.selected), named = folder.selected();
  fs::remove(named);
  fs::remove_all(folder.selected_pair());
  summary.selected_file.clear();
  if (!fs::exists(file)) return;
  std::error_code no_links;
  fs::create_hard_link(file, named, no_links);
  if (no_links) fs::copy_file(file, named);
  copy_files_beside(in.options.model, folder.models());
  if (const auto pair = pair_of(in.model)) {
    write_halves(*pair, file, folder.selected_pair());
    copy_files_beside(in.options.model, folder.selected_pair());
  }
  summary.selected_file = StudyFolder::kSelected;
}

void require_candidate(const OpenStudy& study, const Searched& searched) {
  const std::vector<Trial>& trials = study.study.trials();
  if (study.study.find("float")->failure.empty() || !front_of(trials, study.ending.objectives).empty()) return;
  if (!searched.finished)
    throw Error(Code::kInterrupted,
                "[tune] interrupted before a candidate was found that the target takes; run the "
                "same command to go on");
  const auto failed = std::ranges::find_if(
      trials, [](const Trial& t) { return t.id != "float" && t.id != "published" && !t.failure.empty(); });
  throw Error(Code::kInvalidInput, (failed == trials.end() ? trials.front() : *failed).failure);
}

Report close(const Inputs& in, OpenStudy& study, References& r, const Searched& searched, TimeBudget& time) {
  const TuneOptions& o = in.options;
  Ending& ending = study.ending;
  begin_step(Step::kExplain, in.env);
  if (searched.finished) analyze_layers(in, study, r, time);
  write_float(in);
  remove_first_front(in);
  const std::vector<const Trial*> kept = kept_trials(o, study);
  write_models(kept, in, study, r, time);
  // The published procedure times a few: beside trials that were timed at other moments none could be chosen.
  const bool comparable = searches(o) || !by_latency(o);
  if (comparable && time.has_time(Closing::now(o, time).timing_of(kept.size() + 2), "finalists timed in turn")) {
    begin_step(Step::kTime, in.env);
    time_finalists(in, study, r.places, time);
    if (!in.cached_decoders.empty() && by_latency(o))
      note_in_time("the next token of finalists", 1, in, study, time, [&] { time_cached(in, study, r, time); });
  }
  note_other_shapes(o, study);
  note_silent_loss(in.env, study);
  if (!searched.prediction_error.empty()) ending.notes.push_back(searched.prediction_error);
  note_audit(in, study, r.places.front(), time);
  note_fault(in, study, r.places.front(), time);
  note_changed_tokens(in, study, r.places.front(), time);
  note_text_errors(in, study, r.places.front(), time);
  const bool draws = time.has_time(Closing::now(o, time).drawing, "plots/*.svg, which `seqto report` draws");
  std::map<fs::path, Model> carried;
  optional_step("the selected plan for decoders with a cache", in, study,
                [&] { carried = carried_decoders(in, study, r, time); });
  if (!time.left_out().empty())
    ending.notes.push_back(fmt::format("--max-time left none for {}", fmt::join(time.left_out(), "; ")));
  ending.wall_seconds += time.spent();
  notes::kEnding.add(study.study, ending);
  Summary summary = read_summary(o.output);
  name_selected(in, summary);
  for (const auto& [file, model] : carried) save_model(model, StudyFolder{o.output}.selected_pair() / file);
  return {std::move(summary), {.plots = draws}};
}

}  // namespace seqto::internal
