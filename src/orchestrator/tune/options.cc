#include "orchestrator/tune/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/hash.h"
#include "base/json.h"
#include "data/select.h"
#include "metrics/limits.h"
#include "metrics/loss/loss_fields.h"
#include "metrics/task/task_metric_kinds.h"
#include "orchestrator/tune/improvements.h"
#include "quantization/plan/code_types.h"
#include "quantization/plan/dependence.h"
#include "quantization/plan/layer_fields.h"
#include "search/strategies/strategies.h"
#include "seqto/error.h"
#include "seqto/recipe.h"
#include "seqto/task.h"

namespace seqto::internal {
namespace {

using nlohmann::json;

// What the schemes that quantize activations want the float model to be rewritten with.
std::vector<ImproveOptions> rewritings(const TuneOptions& o) {
  std::vector<ImproveOptions> distinct;
  for (const DetailedScheme& scheme : detailed_schemes(o)) {
    if (!quantizes_activations(scheme.scheme)) continue;
    ImproveOptions wanted = rewriting_of(scheme, o.improvers);
    if (std::ranges::find(distinct, wanted) == distinct.end()) distinct.push_back(std::move(wanted));
  }
  return distinct;
}

[[noreturn]] void usage(const std::string& text) { throw Error(Code::kUsage, "[tune] " + text); }

void validate_own_parts(const TuneOptions& o) {
  if (o.own.strategy) {
    if (o.strategy.empty() || std::ranges::count(strategy_names(), o.strategy) > 0)
      usage(fmt::format("a strategy of your own by the name '{}' found; a name that no strategy of seqto has expected",
                        o.strategy));
  } else {
    make_strategy(o.strategy, {});  // an unknown name costs no calibration
  }
  for (const auto& [name, make] : o.own.devices)
    if (std::ranges::count(o.devices, name) == 0)
      usage(fmt::format("a device of your own '{}' found that is none of the devices {}; its name among them expected",
                        name, fmt::join(o.devices, ", ")));
  if (!o.own.data) return;
  const DatasetOptions& d = o.dataset;
  if (!o.data.empty()) usage(fmt::format("data of your own and {} found; one of them expected", o.data.string()));
  const bool alone = o.calibration_data.empty() && o.ranking_data.empty();
  if (!d.labels.empty() || d.samples > 0 || d.random_samples > 0 || !d.states.empty() ||
      (alone && (!d.preprocess.empty() || !d.dims.empty() || !d.constants.empty())))
    usage(
        "labels, preprocess, samples, random_samples, dims, constants or states found beside data of your own; its "
        "samples are taken as they are: leave these options out");
}

// Of those that some study has. Whether this one has it the float model will tell.
void validate_limits(const TuneOptions& o, std::vector<std::string> metrics) {
  if (o.limits.empty()) return;
  std::vector<std::string> names{"size_bytes",    "size_ratio",        "latency_ns",
                                 "latency_ratio", "decode_latency_ns", "decode_latency_ratio"};
  std::ranges::copy(loss_names(), std::back_inserter(names));
  std::ranges::copy(task_metric_names(), std::back_inserter(metrics));
  std::ranges::sort(metrics);
  metrics.erase(std::unique(metrics.begin(), metrics.end()), metrics.end());
  for (const std::string& metric : metrics) names.push_back(metric), names.push_back(internal::drop_figure(metric));
  for (const Limit& limit : o.limits) {
    if (!std::isfinite(limit.bound))
      usage(fmt::format("a limit of {} on {} found; a finite number expected", limit.bound, limit.figure));
    if (limit.figure != kUnnamedLoss && std::ranges::count(names, limit.figure) == 0) refuse_limit(limit, names);
  }
}

}  // namespace

std::optional<Target> target_of(const TuneOptions& o) {
  return o.target.empty() ? std::nullopt : std::optional(load_target(o.target));
}

bool is_own_device(const TuneOptions& o, const std::string& device) { return o.own.devices.contains(device); }

std::unique_ptr<Strategy> strategy_of(const TuneOptions& o, const SearchSpace& space, const StrategyOptions& how) {
  return o.own.strategy ? o.own.strategy(space, how) : make_strategy(o.strategy, space, how);
}

bool folds_batch_norms(const TuneOptions& o) {
  return searches(o) || std::ranges::any_of(detailed_schemes(o), [](const auto& s) { return !s.fields.empty(); });
}

bool by_latency(const TuneOptions& o) {
  return std::ranges::find(o.search.objectives, "latency") != o.search.objectives.end();
}

CalibrateOptions calibration_of(const TuneOptions& o) {
  CalibrateOptions c = o.calibrate;
  take_quantize_options(c, o.quantize, true);
  if (!searches(o)) c.exact = true;
  return c;
}

std::vector<DetailedScheme> detailed_schemes(const TuneOptions& o) {
  std::vector<DetailedScheme> schemes;
  for (const std::string& name : o.schemes) schemes.push_back(parse_detailed_scheme(name));
  return schemes;
}

bool has_static(const TuneOptions& o) {
  return std::ranges::any_of(detailed_schemes(o), [](const DetailedScheme& s) { return is_static(s.scheme); });
}

Metrics judging_metrics(const TuneOptions& o) {
  MetricOptions asked = o.metrics;
  asked.command_resamples = 0;  // intervals are of what is reported
  Metrics judges = make_metrics(asked, o.own.metrics);
  std::erase_if(judges, [&](const auto& metric) {
    return std::ranges::find(o.search.objectives, metric->name()) == o.search.objectives.end();
  });
  return judges;
}

std::string options_json(const TuneOptions& o) {
  json j{{"strategy", o.strategy},
         {"schemes", o.schemes},
         {"exclude", o.exclude},
         {"calibration_samples", o.calibration_samples.value_or(kCalibrationSamples)},
         {"evaluation_samples", o.evaluation_samples},
         {"ranking_samples", o.ranking_samples},
         {"device", o.devices.front()},
         {"quantize", parse_json(quantize_options_to_json(o.quantize))}};
  if (!o.groups.together.empty()) j["groups"] = o.groups.together;
  if (o.invariant) j["invariant"] = true;
  if (!o.target.empty()) j["target"] = o.target;
  if (std::filesystem::is_regular_file(o.target)) j["target_sha256"] = sha256_file(o.target);
  if (!o.metrics.task.empty()) j["task"] = o.metrics.task;
  if (!o.metrics.pooling.empty()) j["pooling"] = o.metrics.pooling;
  if (!o.metrics.empty()) j["metrics"] = parse_json(metric_options_to_json(o.metrics));
  for (const auto& metric : o.own.metrics) j["own"]["metrics"].push_back(metric->name());
  for (const auto& [name, make] : o.own.devices) j["own"]["devices"].push_back(name);
  if (o.data == "random") j["data"] = "random";
  for (const StateLink& state : o.dataset.states) j["states"].push_back(state.output + "=" + state.input);
  if (o.devices.size() > 1) j["more_devices"] = std::vector(o.devices.begin() + 1, o.devices.end());
  if (json c = parse_json(calibrate_options_to_json(calibration_of(o))); !c.empty()) j["calibration"] = c;
  if (json i = parse_json(improve_options_to_json(o.improvers)); !i.empty()) j["improvers"] = i;
  if (corrects_weights(o)) j["correct_weights"] = true;
  if (searches(o) && !o.search.racing) j["racing"] = false;
  const bool mixed = o.dataset.order == SampleOrder::kMixed;
  if (mixed) j["sample_order"] = to_string(o.dataset.order);
  if (o.dataset.seed != 0 && (mixed || traits_of(o.strategy).draws || o.own.strategy)) j["seed"] = o.dataset.seed;
  return j.dump();
}

Scheme quantized_scheme(const TuneOptions& o) {
  if (searches(o)) return Scheme::kInt8;
  return std::find(o.schemes.begin(), o.schemes.end(), "int8_dynamic") != o.schemes.end() ? Scheme::kInt8Dynamic
                                                                                          : Scheme::kInt8;
}

bool calibrates_by_default(const TuneOptions& o) {
  CalibrateOptions c = calibration_of(o);
  c.exact = CalibrateOptions().exact;  // the same ranges but for rounding
  return calibrate_options_to_json(c) == calibrate_options_to_json({});
}

bool published_settings(const TuneOptions& o) {
  return quantized_scheme(o) == Scheme::kInt8 && calibrates_by_default(o) &&
         quantize_options_to_json(o.quantize) == quantize_options_to_json({}) && o.improvers == ImproveOptions{};
}

namespace {

void validate_bounds(const TuneOptions& o) {
  const std::pair<const char*, double> bounds[] = {{"max_time_seconds", o.max_time_seconds},
                                                   {"max_evaluations", static_cast<double>(o.max_evaluations)},
                                                   {"evaluation_samples", static_cast<double>(o.evaluation_samples)},
                                                   {"ranking_samples", static_cast<double>(o.ranking_samples)}};
  for (const auto& [name, value] : bounds)
    if (!std::isfinite(value) || value < 0) usage(fmt::format("{} of {} found; 0 or more expected", name, value));
  if (std::isnan(o.search.threshold)) usage("a threshold of nan found; a number expected");
  if (o.search.threshold != 0 && !traits_of(o.strategy).reads_threshold)
    usage(
        fmt::format("a threshold with strategy {} found, which does not read it; leave it out, or take strategy "
                    "incremental",
                    o.strategy));
}

// What the published procedure does not read.
void refuse_search_options(const TuneOptions& o) {
  const StrategyOptions unasked;
  const std::pair<const char*, bool> given[] = {{"--search-samples", o.search_samples.has_value()},
                                                {"--search-evaluations", o.search.evaluations != unasked.evaluations},
                                                {"--max-front", o.search.front != unasked.front},
                                                {"--no-racing", o.search.racing != unasked.racing}};
  for (const auto& [flag, is_given] : given)
    if (is_given)
      usage(fmt::format("{} with strategy {} found, which does not search; leave it out, or take another strategy",
                        flag, o.strategy));
}

}  // namespace

void validate(const TuneOptions& o) {
  validate_bounds(o);
  if (!searches(o)) refuse_search_options(o);
  if (o.calibration_samples && *o.calibration_samples < (o.calibration_data.empty() ? 1 : 0))
    usage(fmt::format("{} calibration samples found; at least 1 expected", *o.calibration_samples));
  if (o.message_samples < 1) usage(fmt::format("chunks of {} samples found; at least 1 expected", o.message_samples));
  if (o.audit_samples < 0) usage(fmt::format("{} audit samples found; 0 or more expected", o.audit_samples));
  if (o.audit_samples > 0 && !o.dataset.states.empty())
    usage("an audit of a model with recurrent states found; leave --audit-samples out");
  if (o.output.empty()) usage("no output folder found; name one with -o DIR");
  validate_own_parts(o);
  if (!o.metrics.task.empty()) task_named(o.metrics.task);
  if (!o.metrics.pooling.empty()) parse_pooling(o.metrics.pooling);
  for (const DetailedScheme& s : detailed_schemes(o)) {
    if (const auto found = o.invariant ? dependence(s, o.quantize) : std::nullopt)
      usage(fmt::format("{} among the schemes and --invariant found: its answers depend on {}; {} expected",
                        to_string(s), found->on, found->instead));
    validate_fields(fmt::format("--schemes {}", to_string(s)), s.scheme, s.fields, o.quantize);
    const DataType weights = s.fields.weight_type.value_or(o.quantize.weight_type);
    if (s.scheme == Scheme::kInt8Dynamic && !is_8_bits(weights))
      usage(fmt::format("{} among the schemes and weights of {} found; it takes int8 or uint8; leave --weight-type out",
                        to_string(s), to_string(weights)));
    if (s.fields.method) calibration_named(*s.fields.method, calibration_of(o));
  }
  if (rewritings(o).size() > 1)
    usage(fmt::format(
        "schemes that differ in {} found; the float model is rewritten once, before the search: the same for all "
        "expected; tune once with each, and `seqto report DIR_A DIR_B` shows them side by side",
        field_names(ImproverKind::kModel)));
  const auto count = [&](const char* scheme) { return std::count(o.schemes.begin(), o.schemes.end(), scheme); };
  if (!searches(o) && !o.schemes.empty() && (count("float32") != 1 || count("int8") + count("int8_dynamic") != 1))
    usage(
        "strategy incremental chooses between one of int8 and int8_dynamic, and float32; give --schemes int8,float32");
  if (searches(o) && o.schemes == std::vector<std::string>{"float32"})
    usage("float32 found as the only scheme; one to quantize with expected, as in --schemes int8_weights");
  if (!o.target.empty() && !searches(o))
    usage("a target with strategy incremental found, which is the published procedure; another strategy expected");
  if (o.devices.empty()) usage("no device found; give --device cpu");
  for (const auto& device : o.devices)
    if (std::count(o.devices.begin(), o.devices.end(), device) > 1)
      usage(fmt::format("device {} found more than once; name each once", device));
  if (o.search.front < 1) usage(fmt::format("a front of {} points found; at least 1 expected", o.search.front));
  if (o.search_samples && searches(o) && *o.search_samples < 2)
    usage(fmt::format("{} search samples found; at least 2 expected: one to search on, one to confirm on",
                      *o.search_samples));
  if (std::ranges::all_of(o.search.objectives, is_cost))
    usage(fmt::format("the objectives {} found; a loss or a task metric beside them expected, as in kl,size",
                      fmt::join(o.search.objectives, ", ")));
  std::vector<std::string> metrics(internal::kLabelMetrics.begin(), internal::kLabelMetrics.end());
  for (const auto& metric : make_metrics(o.metrics, o.own.metrics)) metrics.push_back(metric->name());
  validate_limits(o, metrics);
  for (const auto& name : o.search.objectives) {
    if (std::ranges::count(o.search.objectives, name) > 1)
      usage(fmt::format("objective {} found twice; once expected", name));
    if (!is_task_metric(name) || std::ranges::find(metrics, name) != metrics.end()) continue;
    std::vector<std::string> names = cost_names();
    std::ranges::copy(loss_names(), std::back_inserter(names));
    for (const auto& metric : task_metric_names()) metrics.push_back(metric);
    names.insert(names.end(), metrics.begin(), metrics.end());
    usage(fmt::format("objective '{}' found; one of {} expected, or the name of a --metric-command{}", name,
                      fmt::join(names, ", "), did_you_mean(name, names)));
  }
}

namespace {

// 4-bit weights in the form that is as invariant as the float model's products.
void take_invariant(TuneOptions& o, bool chose_schemes) {
  o.quantize.weight_only.int4_format = Int4Format::kFolded;
  if (chose_schemes) return;
  std::optional<Dependence> left;
  std::erase_if(o.schemes, [&](const std::string& name) {
    const auto found = dependence(parse_detailed_scheme(name), o.quantize);
    if (found) left = found;
    return found.has_value();
  });
  if (left && std::ranges::all_of(o.schemes, [](const std::string& name) { return name == "float32"; }))
    usage(fmt::format("--invariant found, and no scheme whose answers do not depend on {}; {} expected", left->on,
                      left->instead));
}

}  // namespace

TuneOptions resolved(TuneOptions o) {
  const std::optional<Target> target = target_of(o);
  const bool chose_schemes = !o.schemes.empty();
  const bool measured = !target || (!o.devices.empty() && o.devices.front() == target->device);
  if (o.search.objectives.empty()) {
    o.search.objectives = {"kl", "size"};
    if (searches(o) && measured) o.search.objectives.emplace_back("latency");
  }
  if (target && o.schemes.empty()) {
    o.schemes = target->schemes;
    // What they save in time nobody sees, and in bytes those in weights alone would always win.
    if (!measured && std::ranges::count(o.schemes, "int8") > 0)
      std::erase_if(o.schemes,
                    [](const std::string& name) { return name != "int8" && name != "float16" && name != "float32"; });
  }
  // Those that need no file need no asking either.
  const std::vector<std::string> known = task_metric_names();
  const auto asked = [&](const std::string& name) {
    return std::ranges::any_of(o.metrics.metrics,
                               [&](const std::string& m) { return m.substr(0, m.find('=')) == name; });
  };
  for (const std::string& name : o.search.objectives)
    if (std::ranges::find(known, name) != known.end() && !asked(name)) o.metrics.metrics.push_back(name);
  if (o.schemes.empty()) {
    if (!searches(o)) o.schemes = {"int8", "float32"};
    // Static int8 loses more than int8 weights and saves no more bytes: it is for speed.
    else if (by_latency(o)) o.schemes = {"int8", "int8_weights", "int4_weights", "float16", "float32"};
    else o.schemes = {"int8_weights", "int4_weights", "float16", "float32"};
  }
  if (const auto wanted = rewritings(o); wanted.size() == 1) {
    for (const Improver& i : improvers())
      if (i.kind == ImproverKind::kModel) o.improvers.*i.option = wanted[0].*i.option;
  }
  if (target && has_static(o)) {
    take_target_types(o.quantize, *target, std::span(kTypeFields).first(o.fast_types ? 0 : kTypeFields.size()));
  } else if (target) {
    take_target_forms(o.quantize, *target);
  } else if (searches(o) && o.fast_types) {
    take_fast_types(o.quantize, o.devices.front());
  }
  if (o.invariant) take_invariant(o, chose_schemes);
  take_quantize_options(o.calibrate, o.quantize, o.names_method || o.calibrate.method != CalibrateOptions().method);
  if (searches(o) && o.data != "random" && !o.quantize.compat_onnxruntime) o.dataset.order = SampleOrder::kMixed;
  if (o.jobs <= 0 && is_own_device(o, o.devices.empty() ? "" : o.devices.front())) o.jobs = 1;
  if (o.jobs <= 0) {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    o.jobs = std::max(1, cores / std::max(1, o.runner.threads));
  }
  if (searches(o)) o.runner.workers = std::max(o.runner.workers, o.jobs);
  return o;
}

int64_t search_samples(const TuneOptions& o, int64_t available) {
  if (!searches(o)) return 0;
  if (o.search_samples) return *o.search_samples;
  if (available < 3) return 0;
  return std::clamp<int64_t>(available / 3 / 2 * 2, 2, kSearchSamples);
}

}  // namespace seqto::internal

namespace seqto {

bool searches(const TuneOptions& o) { return internal::traits_of(o.strategy).searches; }

bool improves_unasked(const TuneOptions& o) {
  const auto is_static = [](const std::string& name) {
    return quantizes_activations(parse_detailed_scheme(name).scheme);
  };
  const bool follows_latency = o.search.objectives.empty() || std::ranges::count(o.search.objectives, "latency") > 0;
  return searches(o) && !o.quantize.compat_onnxruntime && o.data != "random" && o.dataset.states.empty() &&
         (o.schemes.empty() ? follows_latency : std::ranges::any_of(o.schemes, is_static));
}

}  // namespace seqto
