#include "orchestrator/improvements.h"

#include <algorithm>
#include <cassert>
#include <optional>

#include "orchestrator/notes.h"
#include "orchestrator/tune_options.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

// Seconds. A network of 50 layers and up to 1,280 inputs takes some twenty.
constexpr double kTimeToLearn = 300;
constexpr size_t kHurriedSamples = 16;  // means over many positions need no more
constexpr int64_t kWidest = 2304;       // 3 x 3 x 256; ten seconds a layer

constexpr const char *kImproved = "improved ranges", *kFirst = "first corrections";  // notes

fs::path file_of(const TuneOptions& o) { return o.output / "corrections.npz"; }

SchemeCorrections first_corrections(const TuneOptions& o, const Study& study) {
  if (!study.noted(kFirst) || !fs::exists(file_of(o))) return {};
  return load_corrections(file_of(o));
}

// Those that any layer may get, the searched one first.
std::vector<DetailedScheme> schemes_of(const TuneOptions& o) {
  std::vector<DetailedScheme> result{quantized_scheme(o)};
  for (DetailedScheme& scheme : detailed_schemes(o))
    if (std::ranges::find(result, scheme) == result.end()) result.push_back(std::move(scheme));
  return result;
}

bool asks(const LayerOptions& fields) {
  return fields.learned_rounding.value_or(false) || fields.bias_correction.value_or(false);
}

Plan without_methods(Plan plan) {
  for (auto& [layer, fields] : plan.options) fields.method.reset();
  return plan;
}

// Every layer that has it in one scheme; nothing where it is not to be improved.
std::optional<Improved> improve_scheme(const TuneOptions& o, const DetailedScheme& detailed, bool refines,
                                       const Model& model, const Ranges& ranges, const Dataset& data,
                                       std::span<const int64_t> samples, Runner& runner, const Env& env) {
  const Scheme scheme = detailed.scheme;
  if (scheme == Scheme::kFloat32 || scheme == Scheme::kFloat16) return {};
  ImproveOptions improvers = improvers_of(o, scheme);
  if (!refines) improvers.refine_ranges = false;
  if (!improvers.corrects() && !asks(detailed.fields)) return {};
  const Plan plan = without_methods(uniform_plan(model, detailed, o.quantize.exclude));
  const bool few = is_weight_only(scheme) && corrects_weights(o) && is_hurried(o);
  const auto seen = few ? samples.first(std::min(samples.size(), kHurriedSamples)) : samples;
  Improved found = improve(model, ranges, o.quantize, plan, improvers, data, seen, runner, env);
  if (corrects_weights(o) && improvers.max_rounding_inputs > 0) {
    // Of layers that are too wide, or of another kind.
    const ImproveOptions biases{.bias_correction = BiasCorrection::kFast};
    Improved others = improve(model, ranges, o.quantize, plan, biases, data, samples, runner, env);
    for (auto& [layer, shifts] : others.corrections.shifts)
      if (!found.corrections.rounding.contains(layer)) found.corrections.shifts.emplace(layer, std::move(shifts));
  }
  return found;
}

}  // namespace

bool is_hurried(const TuneOptions& o) { return o.max_time_seconds > 0 && o.max_time_seconds < kTimeToLearn; }

bool corrects_weights(const TuneOptions& o) {
  return searches(o) && o.correct_weights && o.data != "random" && o.dataset.states.empty();
}

ImproveOptions improvers_of(const TuneOptions& o, Scheme scheme) {
  ImproveOptions result = o.improvers;
  if (!is_weight_only(scheme)) return result;
  result.center = result.equalize = result.smooth = result.refine_ranges = false;  // of activations
  if (!corrects_weights(o)) return result;
  if (!is_hurried(o)) {
    result.learned_rounding = true;
    result.max_rounding_inputs = kWidest;
  } else if (result.bias_correction == BiasCorrection::kNone) {
    result.bias_correction = BiasCorrection::kFast;
  }
  return result;
}

Improvements find_improvements(const TuneOptions& o, const Model& model, const Ranges& ranges,
                               const std::map<std::string, Ranges>& named, const Dataset& data,
                               std::span<const int64_t> samples, Runner& runner, Study& study, const Env& env) {
  const std::string* noted = study.noted(kImproved);
  if (noted && fs::exists(file_of(o))) return {ranges_from_json(*noted), load_corrections(file_of(o))};
  Improvements result{ranges, first_corrections(o, study)};
  bool found_any = !result.corrections.empty();
  const std::vector<DetailedScheme> schemes = schemes_of(o);
  for (const DetailedScheme& scheme : schemes) {
    if (result.corrections.contains(scheme)) continue;
    const bool first = scheme == schemes.front();
    const Ranges own = ranges_under(uniform_plan(model, scheme, o.quantize.exclude), model, result.ranges, named);
    std::optional<Improved> found = improve_scheme(o, scheme, first, model, own, data, samples, runner, env);
    if (!found) continue;
    if (first) result.ranges = std::move(found->ranges);
    if (!found->corrections.empty()) result.corrections[scheme] = std::move(found->corrections);
    found_any = true;
  }
  if (!found_any) return result;
  save_corrections(result.corrections, file_of(o));
  study.note(kImproved, ranges_to_json(result.ranges));
  return result;
}

SchemeCorrections find_first_corrections(const TuneOptions& o, const DetailedScheme& scheme, const Model& model,
                                         const Dataset& data, std::span<const int64_t> samples, Runner& runner,
                                         Study& study, const Env& env) {
  assert(is_weight_only(scheme.scheme));
  SchemeCorrections result = first_corrections(o, study);
  if (!result.empty()) return result;
  std::optional<Improved> found = improve_scheme(o, scheme, false, model, {}, data, samples, runner, env);
  if (!found || found->corrections.empty()) return result;
  result[scheme] = std::move(found->corrections);
  save_corrections(result, file_of(o));
  study.note(kFirst, "true");
  return result;
}

}  // namespace seqto::internal
