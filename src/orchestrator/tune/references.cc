#include "orchestrator/tune/references.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "orchestrator/tune/course.h"
#include "orchestrator/tune/float_outputs.h"
#include "orchestrator/tune/improvements.h"
#include "orchestrator/tune/search_space.h"
#include "quantization/encode/eligible_layers.h"
#include "runner/link.h"
#include "search/strategies/assignments.h"
#include "search/strategies/strategies.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr const char* kFull = "the fully quantized model in the search's own types";

FloatModel rewritten(const Inputs& in, Study& study, TimeBudget& time) {
  const TuneOptions& o = in.options;
  FloatModel base{in.model, {}, o.quantize};
  if (o.improvers.rewrites() && !notes::kNotRewritten.is_in(study)) {
    std::optional<Model> model;
    const auto rewrite = [&](const Env& env) {
      return rewrite_for(base.model, o.improvers, base.quantize, quantized_scheme(o),
                         {*in.samples.data, in.samples.split.calibration, *in.runner, env});
    };
    // What the study learned is of the rewritten model, whatever time is left now.
    if (notes::kRanges.is_in(study) || notes::kFirstCorrections.is_in(study)) model = rewrite(in.env);
    else if (!leaves_unimproved(o, study)) model = in_time(time, time.rewriting(), in.env, rewrite);
    // Whoever goes on with the study has its model.
    if (!model) notes::kNotRewritten.add(study, true);
    else base.original = std::exchange(base.model, *std::move(model));
  }
  if (notes::kNotRewritten.is_in(study)) time.leave_out("center, equalize and smooth");
  return base;
}

Ranges calibrated(const Workbench& w, const CalibrateOptions& options) {
  return calibrate(w.model, {w.data, w.samples, w.runner, w.env}, options);
}

// Those that schemes to choose from name as their `method`, by that name. `ranges`: for what names the method that the
// study has anyway.
std::map<std::string, Ranges> named_ranges(const Workbench& w, const Ranges& ranges) {
  std::map<std::string, Ranges> result;
  const CalibrateOptions own = calibration_of(w.options);
  for (const DetailedScheme& scheme : detailed_schemes(w.options)) {
    if (!scheme.fields.method || result.contains(*scheme.fields.method)) continue;
    const std::string& name = *scheme.fields.method;
    const CalibrateOptions named = calibration_named(name, own);
    const bool has_it = named.method == own.method && named.percentile == own.percentile;
    result[name] = has_it ? ranges : notes::ranges_of(name).in_or(w.study, [&] { return calibrated(w, named); });
  }
  return result;
}

// The plan that a strategy which adapts looks at first, before anything is calibrated where that needs no ranges:
// int8_weights everywhere, which saves most of the bytes and loses next to nothing. Not where there is time enough, or
// where latencies decide.
void measure_first_plan(const Workbench& w, std::span<const Place> places, const std::optional<Target>& target) {
  if (!traits_of(w.options.strategy).adapts || !is_hurried(w.options) || by_latency(w.options)) return;
  const DetailedScheme scheme{Scheme::kInt8Weights, {}};
  const SearchSpace space = search_space(w.model, w.quantize, w.options);
  const Assignments assignments(space);
  Trial trial;
  trial.plan = assignments.plan(assignments.uniform(scheme));
  trial.step = kUniformStep;
  if (trial.plan.schemes.empty() ||
      std::ranges::find(w.study.trials(), trial.plan, &Trial::plan) != w.study.trials().end())
    return;
  const SchemeCorrections corrections = find_first_corrections(w, scheme);
  trial.id = with_fields(corrections, trial.plan).hash();
  const Model candidate = Quantizer(w.model, {}, w.quantize).quantize(trial.plan, {wanted(corrections, trial.plan)});
  w.study.append(evaluate(candidate, std::move(trial), {places, w.env, nullptr, target ? &*target : nullptr}));
}

// `no_candidate`: why it is none beside those that are compared with it. Returns why it does not run; empty: it does.
std::string measure_reference(Trial trial, const Model& candidate, const std::string& no_candidate,
                              std::span<const Place> places, const Workbench& w) {
  trial = evaluate(candidate, std::move(trial), {.places = places, .env = w.env, .is_reference = true});
  if (!trial.measurement) return trial.failure;
  leave_out_of_front(trial, no_candidate);
  w.study.append(std::move(trial));
  return {};
}

// Which part of each device runs what of the fully quantized model. Throws Error{kUnavailable} where a runtime gives
// all nodes to the CPU without a word: that is not what was asked for.
void note_placement(const Inputs& in, References& r, Study& study) {
  const std::vector<Tensor> inputs = first_inputs(in);
  std::map<std::string, std::vector<NodePlacement>> by_device;
  for (const Place& place : r.places) {
    if (computes_on_cpu(place.device)) continue;
    auto nodes = place.runner->placement(r.candidate(r.full), inputs);
    if (nodes.empty()) continue;  // the runtime does not tell
    if (std::ranges::all_of(nodes, [](const NodePlacement& n) { return n.provider == "CPUExecutionProvider"; }))
      throw Error(Code::kUnavailable,
                  fmt::format("[tune] {} leaves all {} nodes of the fully quantized model to the CPU; a device that "
                              "runs some was expected; try other schemes, or --device cpu",
                              place.device, nodes.size()));
    by_device[place.device] = std::move(nodes);
  }
  if (!by_device.empty()) notes::kPlacement.add(study, by_device);
}

Learned learn(const Workbench& w) {
  Learned result;
  result.ranges = notes::kRanges.in_or(w.study, [&] { return calibrated(w, calibration_of(w.options)); });
  result.in_use = named_ranges(w, result.ranges);
  const double start = w.time.spent();
  Improvements improved = find_improvements(w, result.ranges, result.in_use);
  result.seconds = w.time.spent() - start;
  result.in_use[""] = std::move(improved.ranges);
  result.corrections = std::move(improved.corrections);
  return result;
}

Quantizer quantizer_of(const FloatModel& base, const std::map<std::string, Ranges>& in_use) {
  Quantizer quantizer(base.model, in_use.at(""), base.quantize);
  for (const auto& [name, ranges] : in_use)
    if (!name.empty()) quantizer.add_ranges(name, ranges);
  return quantizer;
}

// What is not there yet is found and noted.
References made_of(std::vector<Place> places, const Inputs& in, Study& study, TimeBudget& time) {
  begin_step(Step::kCalibrate, in.env);
  FloatModel base = rewritten(in, study, time);
  measure_first_plan(workbench(in, base, study, time), places, in.target);
  Learned learned = learn(workbench(in, base, study, time));
  Quantizer quantizer = quantizer_of(base, learned.in_use);
  Plan full = eligible_plan(base.model, base.quantize, quantized_scheme(in.options));
  return {std::move(places), std::move(base), std::move(learned), std::move(quantizer), std::move(full), {}};
}

}  // namespace

Workbench workbench(const Inputs& in, const FloatModel& base, Study& study, TimeBudget& time) {
  return {in.options, base.model, base.quantize, *in.samples.data, in.samples.split.calibration, *in.runner,
          study,      time,       in.env};
}

Published published_model(const Inputs& in, const References& r) {
  const Model& model = r.base.as_given();
  Published result{uniform_plan(model, Scheme::kInt8), r.learned.ranges, calibration_of(in.options)};
  // The study's are of the rewritten model, of fewer types of operators, or found otherwise.
  if (r.base.original || !in.options.quantize.op_types.empty() || !calibrates_by_default(in.options)) {
    result.calibrate = {};
    result.ranges = calibrate(model, {*in.samples.data, in.samples.split.calibration, *in.runner, in.env});
  }
  result.model = Quantizer(model, result.ranges, result.quantize).quantize(result.plan);
  return result;
}

References measure_references(const Inputs& in, OpenStudy& open, TimeBudget& time) {
  Study& study = open.study;
  begin_step(Step::kFloat, in.env);
  References r = made_of(measure_float(in, open), in, study, time);
  const Workbench w = workbench(in, r.base, study, time);
  const double start = time.spent();
  // What size and losses are compared with stays the published quantization, whatever is searched.
  if (!published_settings(in.options) && !study.find("published")) {
    r.published = published_model(in, r);
    const std::string other =
        in.target ? fmt::format("made by onnxruntime's defaults, not for {}", in.target->name) : "";
    const std::string why =
        measure_reference({.id = "published", .plan = r.published->plan}, r.published->model, other, r.places, w);
    if (!why.empty()) {
      in.env.log(LogLevel::kWarning, fmt::format("onnxruntime's default int8 does not run: {}; candidates are compared "
                                                 "with int8 in the search's own types instead",
                                                 why));
      r.published.reset();
    }
  }
  // Then it is the search's own plans that a short time is for.
  const bool can_wait = searches(in.options) && study.find("published");
  const auto has_time = [&] {
    if (!measures_once(in.options, study)) return time.has_time(time.few_plans(time.spent() - start), kFull);
    time.leave_out(kFull);
    return false;
  };
  const bool measures_full = !can_wait || (!r.full.schemes.empty() && has_time());
  std::string why;
  if (measures_full && !study.find("full")) {
    const Model full = r.candidate(r.full);
    why = measure_reference({.id = "full", .plan = r.full}, full, no_candidate(in, r.full, full), r.places, w);
    if (!why.empty() && !can_wait)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[tune] the fully quantized model does not run: {}; it is what candidates are compared with",
                      why));
    if (!why.empty())
      in.env.log(LogLevel::kWarning, fmt::format("{} does not run: {}; candidates are compared with onnxruntime's "
                                                 "default int8",
                                                 kFull, why));
  }
  if (why.empty() && !notes::kPlacement.is_in(study)) note_placement(in, r, study);
  if (searches(in.options) && !notes::kSearchBegins.is_in(study)) notes::kSearchBegins.add(study, true);
  return r;
}

References begun_references(const Inputs& in, OpenStudy& open, TimeBudget& time, FloatRuns runs) {
  return made_of(measure_float_again(in, open, runs), in, open.study, time);
}

}  // namespace seqto::internal
