#include "orchestrator/study/summarize.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "metrics/decode_speed.h"
#include "metrics/limits.h"
#include "orchestrator/study/name_points.h"
#include "orchestrator/study/recommend.h"
#include "seqto/error.h"
#include "seqto/report.h"
#include "seqto/tune.h"
#include "visualizer/points.h"

namespace seqto::internal {
namespace {

Point point_of(const Trial& trial, const std::vector<std::string>& objectives) {
  Point point;
  for (const auto& name : objectives)
    point.push_back(trial.measurement && trial.part == Part::kEvaluation ? objective(*trial.measurement, name)
                                                                         : std::numeric_limits<double>::quiet_NaN());
  return point;
}

// Scaled so that the better of the float and the fully quantized model is 0 and the worse is 1, per objective.
double scaled_hypervolume(const std::vector<Point>& front, const Point& a, const Point& b) {
  std::vector<Point> scaled;
  for (const Point& p : front) {
    Point s;
    for (size_t k = 0; k < p.size(); ++k) {
      if (std::isnan(a[k]) || std::isnan(b[k])) continue;  // not measured
      double low = std::min(a[k], b[k]), span = std::max(a[k], b[k]) - low;
      s.push_back(span > 0 ? (p[k] - low) / span : 0.0);
    }
    scaled.push_back(std::move(s));
  }
  return scaled.empty() ? 0 : hypervolume(scaled, Point(scaled.front().size(), 1.0));
}

const Trial* find(const std::vector<Trial>& trials, const std::string& id) {
  auto it = std::find_if(trials.rbegin(), trials.rend(),
                         [&](const Trial& t) { return t.id == id && t.part == Part::kEvaluation; });
  return it == trials.rend() ? nullptr : &*it;
}

// The fully quantized reference: trial "published" where the search used other settings, else "full"; "first" of a
// search that has neither yet.
const Trial* reference_trial(const std::vector<Trial>& trials) {
  for (const char* id : {"published", "full", "first"})
    if (const Trial* trial = find(trials, id)) return trial;
  return nullptr;
}

// Makes points of trials: what a device's own figures do not tell comes from the first device's.
struct Pointer {
  const std::filesystem::path& dir;
  double float_size, full_size;

  SummaryPoint operator()(const Trial& trial) const {
    SummaryPoint p{.trial = trial};
    // For all that read it: the table, the report, and check of the study.
    if (auto& m = p.trial.measurement; m && trial.id != "float") {
      const auto changed = m->intervals.find("top1_disagreement");
      if (changed != m->intervals.end())
        changed->second = *trusted_interval(*m, changed->first, m->losses.top1_disagreement, changed->second);
    }
    if (trial.measurement && full_size < float_size)
      p.size_reduction_kept =
          (float_size - static_cast<double>(trial.measurement->size_bytes)) / (float_size - full_size);
    const StudyFolder here;
    const std::filesystem::path file = here.model(trial.id), plan = here.plan(trial.id);
    if (std::filesystem::exists(dir / file)) p.file = file.string();
    if (std::filesystem::exists(dir / plan)) p.plan_file = plan.string();
    return p;
  }
};

// `front` is sorted by size.
void find_alike(std::vector<SummaryPoint>& front, const std::string& loss) {
  std::vector<const Measurement*> measured;
  for (const SummaryPoint& p : front) measured.push_back(&*p.trial.measurement);
  const PairedFigure figure(measured, loss);
  for (size_t i = 0; i < front.size(); ++i)
    for (size_t j = 0; j < i && front[i].alike.empty(); ++j)
      if (const auto difference = figure.difference(i, j); difference && difference->holds(0))
        front[i].alike = front[j].trial.id;
}

void compare_with_float(DeviceFront& d) {
  const auto& baseline = d.baseline.trial.measurement;
  if (!baseline) return;
  const auto value = [&](SummaryPoint& p) {
    if (p.trial.id == d.baseline.trial.id || !p.trial.measurement) return;
    p.mcnemar = mcnemar(*p.trial.measurement, *baseline);
    for (const auto& [name, _] : p.trial.measurement->metrics)
      if (baseline->metrics.contains(name)) p.drops[name].value = drop(*p.trial.measurement, *baseline, name);
  };
  value(d.fully_quantized);
  std::ranges::for_each(d.front, value);
  std::ranges::for_each(d.trials, value);
  std::vector<SummaryPoint*> listed{&d.fully_quantized};
  for (SummaryPoint& p : d.front) listed.push_back(&p);
  std::vector<const Measurement*> measured{&*baseline};
  std::erase_if(listed, [](const SummaryPoint* p) { return !p->trial.measurement; });
  for (const SummaryPoint* p : listed) measured.push_back(&*p->trial.measurement);
  for (const auto& [name, _] : baseline->metrics) {
    const PairedFigure figure(measured, name);
    const bool lower = baseline->lower_is_better.contains(name);
    for (size_t i = 0; i < listed.size(); ++i)
      if (const auto found = listed[i]->drops.find(name); found != listed[i]->drops.end())
        found->second.interval = trusted_interval(*listed[i]->trial.measurement, name, found->second.value,
                                                  lower ? figure.difference(i + 1, 0) : figure.difference(0, i + 1));
  }
}

// With the latencies of those that were timed again: the front, and what is chosen from it, are of the figures that are
// shown. The others have none: theirs are of other moments.
std::vector<Trial> as_shown(std::vector<Trial> trials, const std::string& device, const Ending& ending) {
  const auto show = [&](const auto& by_device, auto give) {
    const auto known = by_device.find(device);
    if (known == by_device.end()) return;
    for (Trial& t : trials)
      if (t.measurement) {
        const auto timed = known->second.find(t.id);
        give(*t.measurement, timed == known->second.end() ? std::nullopt : std::optional(timed->second));
      }
  };
  show(ending.latencies, [](Measurement& m, std::optional<Latency> timed) { m.latency = timed.value_or(Latency()); });
  show(ending.decode_latencies, [](Measurement& m, std::optional<Latency> timed) { m.decode_latency = timed; });
  return trials;
}

// Takes the limits out that are on what was not measured: a decoder's next step before it is timed, or where the
// runtime does not run it. They are not met.
std::vector<CheckedLimit> take_not_measured(std::vector<Limit>& limits, const Measurement& reference) {
  const Figures known = figures_of(reference, reference);
  const auto split = std::ranges::stable_partition(
      limits, [&](const Limit& limit) { return limit.figure == kUnnamedLoss || known.contains(limit.figure); });
  std::vector<CheckedLimit> taken;
  for (const Limit& limit : split) taken.push_back({limit, {.value = std::numeric_limits<double>::quiet_NaN()}});
  limits.erase(split.begin(), split.end());
  return taken;
}

void choose(DeviceFront& d, Ending ending) {
  d.selected = d.top.empty() ? d.baseline.trial.id : d.top.front();
  d.tolerance = ending.tolerance;
  const auto& reference = d.baseline.trial.measurement;
  // A device that did not even run the float model has nothing to hold others against.
  if (!reference) return;
  if (!d.front.empty()) recommend(d, ending.objectives);
  d.limits = take_not_measured(ending.limits, *reference);
  if (ending.limits.empty()) return;
  const std::vector<Limit> limits = with_loss(ending.limits, followed_loss(ending.objectives));
  if (d.front.empty()) {  // float is what there is
    const std::vector<CheckedLimit> checked = check(figures_of(*reference, *reference), limits);
    d.limits.insert(d.limits.begin(), checked.begin(), checked.end());
    return;
  }
  std::vector<Measurement> measured;
  for (const SummaryPoint& p : d.front) measured.push_back(*p.trial.measurement);
  const auto selection = select(measured, *reference, ending.objectives, limits);
  d.selected = d.front[selection->index].trial.id;
  d.limits.insert(d.limits.begin(), selection->limits.begin(), selection->limits.end());
}

// Without the next token's time on a device that did not take it.
std::vector<std::string> measured_objectives(std::vector<std::string> objectives, const std::vector<Trial>& trials) {
  const Trial* baseline = find(trials, "float");
  if (baseline && baseline->measurement && !baseline->measurement->decode_latency)
    std::erase(objectives, "decode_latency");
  return objectives;
}

// Not smaller than float and not surely faster: it is on the front by what times differ by chance.
bool saves_nothing(const Measurement& m, const Measurement& in_float, const std::vector<std::string>& objectives) {
  const auto has = [&](const char* name) { return std::ranges::find(objectives, name) != objectives.end(); };
  const bool faster = has("latency") && speed_of(m.latency, in_float.latency) == Speed::kFaster;
  const bool decodes_faster = has("decode_latency") && m.decode_latency && in_float.decode_latency &&
                              decode_speed(*m.decode_latency, *in_float.decode_latency) == Speed::kFaster;
  return m.size_bytes >= in_float.size_bytes && !faster && !decodes_faster;
}

DeviceFront front_on(const std::string& device, std::vector<Trial> measured_trials, Ending ending,
                     const Pointer& point) {
  const std::vector<Trial> trials = as_shown(std::move(measured_trials), device, ending);
  ending.objectives = measured_objectives(std::move(ending.objectives), trials);
  const Trial &baseline = *find(trials, "float"), &full = *reference_trial(trials);
  DeviceFront d;
  d.device = device;
  d.baseline = point(baseline);
  d.fully_quantized = point(full);
  std::vector<Point> points;
  for (size_t i : front_of(trials, ending.objectives)) {
    if (baseline.failure.empty() && baseline.measurement &&
        saves_nothing(*trials[i].measurement, *baseline.measurement, ending.objectives))
      continue;
    d.front.push_back(point(trials[i]));
    points.push_back(point_of(trials[i], ending.objectives));
  }
  const std::string loss = loss_name(ending.objectives);
  find_alike(d.front, loss);
  // As in the front itself, the float model competes and is not listed.
  std::vector<Point> flat;
  for (const SummaryPoint& p : d.front) flat.push_back(point_of(p.trial, {loss, "size"}));
  if (baseline.failure.empty()) flat.push_back(point_of(baseline, {loss, "size"}));
  for (size_t i : pareto_front(flat))
    if (i < d.front.size()) d.outline.push_back(d.front[i].trial.id);
  for (size_t i : nearest_to_ideal(points, 3)) d.top.push_back(d.front[i].trial.id);
  if (baseline.measurement && full.measurement)
    d.hypervolume =
        scaled_hypervolume(points, point_of(baseline, ending.objectives), point_of(full, ending.objectives));
  for (const Trial& t : trials)
    if (t.part == Part::kEvaluation) d.trials.push_back(point(t));
  compare_with_float(d);
  choose(d, std::move(ending));
  return d;
}

// The flag but for which candidates were judged on more samples.
std::string fewer_samples_by(const Study& study) {
  const auto fewer = notes::kFewerSamples.in(study);
  if (fewer && fewer->not_evaluated > 0) return "--max-time";
  const auto options = parse_json_if_any(study.header().options_json);
  const int64_t asked = options.is_object() ? options.value("evaluation_samples", int64_t{0}) : 0;
  return asked > 0 && asked <= study.header().evaluation_samples ? "--evaluation-samples" : "";
}

// As the options of the study name it.
std::string first_device(const Study& study) {
  auto options = parse_json_if_any(study.header().options_json);
  return options.is_object() ? options.value("device", "cpu") : "cpu";
}

// The devices beside the first on which the study measured.
std::vector<std::string> other_devices(const Study& study) {
  std::vector<std::string> devices;
  if (const Trial* baseline = study.find("float"))
    for (const auto& [device, outcome] : baseline->elsewhere) devices.push_back(device);
  return devices;
}

// The study's trials with the figures of one of them.
std::vector<Trial> trials_on(const Study& study, const std::string& device) {
  std::vector<Trial> trials = study.trials();
  for (Trial& t : trials) {
    auto it = t.elsewhere.find(device);
    Outcome outcome = it == t.elsewhere.end() ? Outcome{{}, "not measured on this device"} : it->second;
    t.measurement = std::move(outcome.measurement);
    t.failure = std::move(outcome.failure);
  }
  return trials;
}

}  // namespace

std::vector<size_t> front_of(const std::vector<Trial>& trials, const std::vector<std::string>& asked) {
  const std::vector<std::string> objectives = measured_objectives(asked, trials);
  const auto is_timed = [](const Trial& t) { return t.measurement && t.measurement->latency.median_ns > 0; };
  const bool by_latency =
      std::ranges::find(objectives, "latency") != objectives.end() && std::ranges::any_of(trials, is_timed);
  std::vector<Point> points;
  for (const Trial& t : trials) {
    points.push_back(point_of(t, objectives));
    // Of a run that ended before it was timed beside the others, or no candidate: it cannot compete.
    const bool runs_out = by_latency && !is_timed(t);
    if (runs_out || !t.failure.empty())
      points.back().assign(objectives.size(), std::numeric_limits<double>::quiet_NaN());
  }
  std::vector<size_t> front = pareto_front(points);
  std::erase_if(front, [&](size_t i) { return trials[i].id == "float" || trials[i].id == "published"; });
  std::stable_sort(front.begin(), front.end(), [&](size_t a, size_t b) {
    return trials[a].measurement->size_bytes < trials[b].measurement->size_bytes;
  });
  return front;
}

bool counts_time(const std::vector<std::string>& objectives) {
  return std::ranges::any_of(objectives, [](const auto& name) { return is_cost(name) && name != "size"; });
}

std::vector<size_t> reportable(const Study& study, const std::vector<std::string>& objectives, bool all_are_timed) {
  std::set<size_t> found;
  const auto add = [&](const std::vector<Trial>& trials) {
    for (size_t i : front_of(trials, objectives)) found.insert(i);
    // A point that was slow by chance is on the front of the figures that are to come.
    if (!all_are_timed || !counts_time(objectives)) return;
    for (size_t i = 0; i < trials.size(); ++i)
      if (trials[i].part == Part::kEvaluation && trials[i].measurement) found.insert(i);
  };
  add(study.trials());
  for (const std::string& device : other_devices(study)) add(trials_on(study, device));
  std::erase_if(found, [&](size_t i) {
    const std::string& id = study.trials()[i].id;
    return id == "float" || id == "published" || id == "full";
  });
  return {found.begin(), found.end()};
}

DeviceFront front_of_trials(const std::string& device, const std::vector<Trial>& trials, const Ending& ending,
                            const std::filesystem::path& dir) {
  auto size = [](const Trial& t) { return static_cast<double>(t.measurement->size_bytes); };
  return front_on(device, trials, ending, {dir, size(*find(trials, "float")), size(*reference_trial(trials))});
}

Summary summarize(const Study& study, const std::filesystem::path& dir, const Ending& ending) {
  const Trial* baseline = study.find("float");
  const Trial* full = reference_trial(study.trials());
  if (!baseline || !full || !baseline->measurement || !full->measurement)
    throw Error(Code::kInvalidInput,
                "[report] the study holds no float or fully quantized trial that worked; both were "
                "expected; run `seqto tune` again");
  Pointer point{dir, static_cast<double>(baseline->measurement->size_bytes),
                static_cast<double>(full->measurement->size_bytes)};
  Summary s;
  s.header = study.header();
  s.task = ending.task;
  s.objectives = ending.objectives;
  static_cast<DeviceFront&>(s) = front_on(first_device(study), study.trials(), ending, point);
  for (const std::string& device : other_devices(study))
    s.elsewhere.push_back(front_on(device, trials_on(study, device), ending, point));
  name_points(s);
  if (auto by_device = notes::kPlacement.in(study)) {
    s.placement = (*by_device)[s.device];
    for (DeviceFront& d : s.elsewhere) d.placement = (*by_device)[d.device];
  }
  s.sensitivity = notes::kSensitivity.in(study).value_or(Sensitivity());
  s.layers = notes::kLayers.in(study).value_or(std::vector<Layer>());
  s.wiring = notes::kWiring.in(study).value_or(std::vector<LayerTensors>());
  NotedValues values = notes::kValues.in(study).value_or(NotedValues());
  s.values = std::move(values.tensors);
  s.value_samples = values.samples;
  s.explained = notes::kExplained.in(study).value_or(Explained());
  s.what_if = notes::kWhatIf.in(study);
  s.changed_tokens = notes::kChangedTokens.in(study);
  s.fewer_samples_by = fewer_samples_by(study);
  s.size_note = ending.size_note;
  s.items_in_sample = ending.items_in_sample;
  // That of a first front stays where a run was killed.
  const StudyFolder folder{dir};
  if (std::filesystem::exists(folder.selected()) && std::filesystem::exists(folder.model(s.selected)))
    s.selected_file = StudyFolder::kSelected;
  s.evaluations = static_cast<int64_t>(study.trials().size());
  s.wall_seconds = ending.wall_seconds;
  s.notes = ending.notes;
  // Many small layers: their scales and zero points weigh more than what their weights lose.
  if (point.full_size >= point.float_size)
    s.notes.push_back(fmt::format("{} has {}, float {}: there is no size reduction to keep", s.fully_quantized.name,
                                  format_bytes(static_cast<int64_t>(point.full_size)),
                                  format_bytes(static_cast<int64_t>(point.float_size))));
  return s;
}

}  // namespace seqto::internal

seqto::Summary seqto::read_summary(const std::filesystem::path& dir) {
  const Study study = Study::read(StudyFolder{dir}.study());
  const auto ending = internal::notes::kEnding.in(study);
  return internal::summarize(study, dir, ending.value_or(internal::Ending{.objectives = {"kl", "size"}}));
}
