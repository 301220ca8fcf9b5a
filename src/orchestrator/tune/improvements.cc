#include "orchestrator/tune/improvements.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>
#include <optional>

#include "orchestrator/study/notes.h"
#include "orchestrator/tune/tune_options.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

// Seconds. A network of 50 layers and up to 1,280 inputs takes some twenty.
constexpr double kTimeToLearn = 300;
constexpr size_t kHurriedSamples = 16;  // means over many positions need no more
constexpr int64_t kWidest = 2304;       // 3 x 3 x 256; ten seconds a layer
constexpr double kLearning = 1.0 / 3;   // of what is left of a limited time, that it may take to learn roundings
constexpr double kImproving = 0.4;      // that all of it may take; what is not found by then is left out

constexpr const char *kImproved = "improved ranges", *kFirst = "first corrections";  // notes

SchemeCorrections first_corrections(const TuneOptions& o, const Study& study) {
  if (!study.noted(kFirst) || !fs::exists(corrections_file(o))) return {};
  SchemeCorrections found = load_corrections(corrections_file(o));
  // A run may have been killed between the file of all and its note.
  std::erase_if(found, [](const auto& entry) { return !is_weight_only(entry.first.scheme); });
  return found;
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

bool learns(const TuneOptions& o, const DetailedScheme& scheme) {
  if (scheme.scheme == Scheme::kFloat32 || scheme.scheme == Scheme::kFloat16) return false;
  return scheme.fields.learned_rounding.value_or(improvers_of(o, scheme.scheme).learned_rounding);
}

// Where time is limited and nobody asked for learned roundings in so many words, learning gets a part of it, and each
// scheme an equal part of what is left of that.
class LearningTime {
 public:
  LearningTime(const TuneOptions& o, const std::vector<DetailedScheme>& schemes, double seconds, const Env& env)
      : env_(env) {
    if (o.max_time_seconds <= 0 || !o.correct_weights) return;
    end_ns_ = env.clock_ns() + static_cast<int64_t>(seconds * 1e9);
    schemes_ = std::ranges::count_if(schemes, [&](const DetailedScheme& s) { return learns(o, s); });
  }

  // From now on whether the next of the schemes that learn has had its part; empty: there is no limit.
  std::function<bool()> next() {
    if (schemes_ <= 0) return {};
    const int64_t now = env_.clock_ns(), end = now + (*end_ns_ - now) / schemes_--;
    return [this, end] { return env_.clock_ns() >= end; };
  }

 private:
  const Env& env_;
  std::optional<int64_t> end_ns_;
  int64_t schemes_ = 0;  // to come
};

// Every layer that has it in one scheme; nothing where it is not to be improved. Layers whose rounding there is no time
// to learn get their biases corrected.
std::optional<Improved> improve_scheme(const TuneOptions& o, const DetailedScheme& detailed, bool refines,
                                       const Model& model, const Ranges& ranges, const Dataset& data,
                                       std::span<const int64_t> samples, Runner& runner, LearningTime& time,
                                       const Env& env) {
  const Scheme scheme = detailed.scheme;
  if (scheme == Scheme::kFloat32 || scheme == Scheme::kFloat16) return {};
  ImproveOptions improvers = improvers_of(o, scheme);
  if (!refines) improvers.refine_ranges = false;
  if (!improvers.corrects() && !asks(detailed.fields)) return {};
  const Plan plan = without_methods(uniform_plan(model, detailed, o.quantize.exclude));
  const bool few = is_weight_only(scheme) && corrects_weights(o) && is_hurried(o);
  const auto seen = few ? samples.first(std::min(samples.size(), kHurriedSamples)) : samples;
  bool cut = false;
  std::function<bool()> enough;
  if (learns(o, detailed))
    if (auto over = time.next()) enough = [&cut, over] { return cut = over(); };
  Improved found = improve(model, ranges, o.quantize, plan, improvers, {data, seen, runner, env}, enough);
  const bool leaves_some = cut || (corrects_weights(o) && improvers.max_rounding_inputs > 0);
  if (leaves_some && improvers.bias_correction == BiasCorrection::kNone) {
    // Of layers that are too wide, or of another kind.
    const ImproveOptions biases{.bias_correction = BiasCorrection::kFast};
    Improved others = improve(model, ranges, o.quantize, plan, biases, {data, samples, runner, env});
    for (auto& [layer, shifts] : others.corrections.shifts)
      if (!found.corrections.rounding.contains(layer)) found.corrections.shifts.emplace(layer, std::move(shifts));
  }
  return found;
}

}  // namespace

std::filesystem::path corrections_file(const TuneOptions& o) { return o.output / "corrections.npz"; }

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
                               std::span<const int64_t> samples, Runner& runner, Study& study, const TimeLimit& limit,
                               const Env& env) {
  const std::string* noted = study.noted(kImproved);
  if (noted && fs::exists(corrections_file(o)))
    return {ranges_from_json(*noted), load_corrections(corrections_file(o))};
  Improvements result{ranges, first_corrections(o, study)};
  bool found_any = !result.corrections.empty();
  const std::vector<DetailedScheme> schemes = schemes_of(o);
  LearningTime time(o, schemes, limit.left(kLearning), env);
  const double end = limit.spent() + limit.left(kImproving);
  for (const DetailedScheme& scheme : schemes) {
    if (result.corrections.contains(scheme)) continue;
    const bool first = scheme == schemes.front();
    const Ranges own = ranges_under(uniform_plan(model, scheme, o.quantize.exclude), model, result.ranges, named);
    // What was asked for in so many words takes the time that it takes.
    const double seconds = o.correct_weights ? end - limit.spent() : std::numeric_limits<double>::infinity();
    const auto in_its_time = in_time(limit, seconds, env, [&](const Env& hurried) {
      return improve_scheme(o, scheme, first, model, own, data, samples, runner, time, hurried);
    });
    if (!in_its_time) result.left_out = true;
    if (!in_its_time || !*in_its_time) continue;
    std::optional<Improved> found = *in_its_time;
    if (first) result.ranges = std::move(found->ranges);
    if (!found->corrections.empty()) result.corrections[scheme] = std::move(found->corrections);
    found_any = true;
  }
  if (!found_any && !result.left_out) return result;
  save_corrections(result.corrections, corrections_file(o));
  study.note(kImproved, ranges_to_json(result.ranges));
  return result;
}

SchemeCorrections find_first_corrections(const TuneOptions& o, const DetailedScheme& scheme, const Model& model,
                                         const Dataset& data, std::span<const int64_t> samples, Runner& runner,
                                         Study& study, const Env& env) {
  assert(is_weight_only(scheme.scheme));
  SchemeCorrections result = first_corrections(o, study);
  if (!result.empty()) return result;
  LearningTime time(o, schemes_of(o), kLearning * o.max_time_seconds, env);
  std::optional<Improved> found = improve_scheme(o, scheme, false, model, {}, data, samples, runner, time, env);
  if (!found || found->corrections.empty()) return result;
  result[scheme] = std::move(found->corrections);
  save_corrections(result, corrections_file(o));
  study.note(kFirst, "true");
  return result;
}

}  // namespace seqto::internal
