#include "orchestrator/tune/improvements.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>
#include <optional>

#include "orchestrator/study/notes.h"
#include "orchestrator/study/study_files.h"
#include "orchestrator/tune/course.h"
#include "orchestrator/tune/options.h"
#include "quantization/improve/coded_layers.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHurriedSamples = 16;  // means over many positions need no more

SchemeCorrections first_corrections(const TuneOptions& o, const Study& study) {
  if (!notes::kFirstCorrections.is_in(study) || !fs::exists(corrections_file(o.output))) return {};
  SchemeCorrections found = load_corrections(corrections_file(o.output));
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

Plan without_methods(Plan plan) {
  for (auto& [layer, fields] : plan.options) fields.method.reset();
  return plan;
}

bool learns(const TuneOptions& o, const Model& model, const DetailedScheme& scheme) {
  if (scheme.scheme == Scheme::kFloat32 || scheme.scheme == Scheme::kFloat16) return false;
  return scheme.fields.learned_rounding.value_or(improvers_of(o, model, scheme.scheme).learned_rounding);
}

// Where time is limited and nobody asked for learned roundings in so many words, learning gets a part of it, and each
// scheme an equal part of what is left of that.
class LearningTime {
 public:
  LearningTime(const Workbench& w, double seconds) : time_(w.time), end_(w.time.spent() + seconds) {
    if (!w.time.is_limited() || !w.options.correct_weights) return;
    schemes_ = schemes_that_learn(w.options, w.model);
  }

  // From now on whether the next of the schemes that learn has had its part; empty: there is no limit.
  std::function<bool()> next() {
    if (schemes_ <= 0) return {};
    const double now = time_.spent(), end = now + (end_ - now) / static_cast<double>(schemes_--);
    return [this, end] { return time_.spent() >= end; };
  }

 private:
  const TimeBudget& time_;
  double end_;
  int64_t schemes_ = 0;  // to come
};

// Every layer that has it in one scheme; nothing where it is not to be improved. Layers whose rounding there is no time
// to learn get their biases corrected.
std::optional<Improved> improve_scheme(const Workbench& w, const DetailedScheme& detailed, const Ranges& ranges,
                                       LearningTime& time, const Env& env) {
  const TuneOptions& o = w.options;
  const Scheme scheme = detailed.scheme;
  if (scheme == Scheme::kFloat32 || scheme == Scheme::kFloat16) return {};
  ImproveOptions improvers = improvers_of(o, w.model, scheme);
  if (detailed != schemes_of(o).front())  // whose ranges are those of all
    for (const Improver& i : seqto::improvers())
      if (i.kind == ImproverKind::kRanges) improvers.*i.option = false;
  if (!improvers.corrects() && !asks(detailed.fields, ImproverKind::kEncoding)) return {};
  const Plan plan = without_methods(uniform_plan(w.model, detailed, w.quantize.exclude));
  const Candidate candidate{w.model, ranges, w.quantize, plan};
  const bool few = is_weight_only(scheme) && corrects_weights(o) && hurries_learning(o, w.model);
  const auto seen = few ? w.samples.first(std::min(w.samples.size(), kHurriedSamples)) : w.samples;
  std::function<bool()> enough;
  if (learns(o, w.model, detailed)) enough = time.next();
  return improve(candidate, improvers, {w.data, seen, w.runner, env}, enough);
}

// Those of an earlier run.
std::optional<Improvements> known_improvements(const Workbench& w) {
  const auto ranges = notes::kImprovedRanges.in(w.study);
  const fs::path file = corrections_file(w.options.output);
  if (!ranges || !fs::exists(file)) return {};
  return Improvements{*ranges, load_corrections(file)};
}

}  // namespace

// At 5 x 10^9 products of second moments a second, as two cores do.
bool hurries_learning(const TuneOptions& o, const Model& model) {
  if (!is_hurried(o)) return false;
  constexpr double kSpeed = 5e9, kShare = 1.0 / 20;
  double products = 0;
  for (const auto& [node, weight, layout] : layers_to_learn(model))
    products += static_cast<double>(layout.groups * layout.inputs * layout.inputs) *
                static_cast<double>(wanted_rows(layout, {}));
  return products > kSpeed * kShare * o.max_time_seconds;
}

bool leaves_unimproved(const TuneOptions& o, const Study& study) {
  return measures_once(o, study) && o.correct_weights;
}

bool corrects_weights(const TuneOptions& o) {
  return searches(o) && o.correct_weights && o.data != "random" && o.dataset.states.empty();
}

int64_t schemes_that_learn(const TuneOptions& o, const Model& model) {
  return std::ranges::count_if(schemes_of(o), [&](const DetailedScheme& scheme) { return learns(o, model, scheme); });
}

ImproveOptions improvers_of(const TuneOptions& o, const Model& model, Scheme scheme) {
  ImproveOptions result = o.improvers;
  if (!is_weight_only(scheme)) return result;
  for (const Improver& i : improvers())
    if (i.option && !i.serves(scheme)) result.*i.option = false;
  if (!corrects_weights(o)) return result;
  if (!hurries_learning(o, model)) {
    for (const Improver& i : improvers())
      if (i.recommended && i.recommended(scheme, {})) result.*i.option = true;
    result.max_rounding_inputs = kWidestUnasked;
  } else if (result.bias_correction == BiasCorrection::kNone) {
    result.bias_correction = BiasCorrection::kFast;
  }
  return result;
}

Improvements find_improvements(const Workbench& w, const Ranges& ranges, const std::map<std::string, Ranges>& named) {
  const TuneOptions& o = w.options;
  if (std::optional<Improvements> known = known_improvements(w)) return *std::move(known);
  Improvements result{ranges, first_corrections(o, w.study)};
  if (leaves_unimproved(o, w.study)) {
    w.time.leave_out("improving the schemes");
    return result;
  }
  begin_step(Step::kImprove, w.env, schemes_that_learn(o, w.model));
  bool found_any = !result.corrections.empty(), left_out = false;
  LearningTime time(w, w.time.learning());
  const double end = w.time.spent() + w.time.improving();
  for (const DetailedScheme& scheme : schemes_of(o)) {
    if (result.corrections.contains(scheme)) continue;
    const Ranges own = ranges_under(uniform_plan(w.model, scheme, w.quantize.exclude), w.model, result.ranges, named);
    // What was asked for in so many words takes the time that it takes.
    const double seconds = o.correct_weights ? end - w.time.spent() : std::numeric_limits<double>::infinity();
    auto in_its_time =
        in_time(w.time, seconds, w.env, [&](const Env& env) { return improve_scheme(w, scheme, own, time, env); });
    if (!in_its_time) left_out = true;
    if (!in_its_time || !*in_its_time) continue;
    Improved& found = **in_its_time;
    if (scheme == schemes_of(o).front()) result.ranges = std::move(found.ranges);
    if (!found.corrections.empty()) result.corrections[scheme] = std::move(found.corrections);
    found_any = true;
  }
  if (left_out) w.time.leave_out("improving some of the schemes");
  if (!found_any && !left_out) return result;
  save_corrections(result.corrections, corrections_file(o.output));
  notes::kImprovedRanges.add(w.study, result.ranges);
  return result;
}

SchemeCorrections find_first_corrections(const Workbench& w, const DetailedScheme& scheme) {
  assert(is_weight_only(scheme.scheme));
  if (std::optional<Improvements> all = known_improvements(w)) return std::move(all->corrections);
  SchemeCorrections result = first_corrections(w.options, w.study);
  if (!result.empty()) return result;
  LearningTime time(w, w.time.first_learning());
  std::optional<Improved> found = improve_scheme(w, scheme, {}, time, w.env);
  if (!found || found->corrections.empty()) return result;
  result[scheme] = std::move(found->corrections);
  save_corrections(result, corrections_file(w.options.output));
  notes::kFirstCorrections.add(w.study, true);
  return result;
}

}  // namespace seqto::internal
