#include "orchestrator/summarize.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

Point point_of(const Trial& trial, const std::vector<std::string>& objectives) {
  Point point;
  for (const auto& name : objectives)
    point.push_back(trial.measurement ? objective(*trial.measurement, name) : std::numeric_limits<double>::quiet_NaN());
  return point;
}

// Scaled so that the better of the float and the fully quantized model is 0 and the worse is 1, per objective.
double scaled_hypervolume(const std::vector<Point>& front, const Point& a, const Point& b) {
  std::vector<Point> scaled;
  for (const Point& p : front) {
    Point s;
    for (size_t k = 0; k < p.size(); ++k) {
      double low = std::min(a[k], b[k]), span = std::max(a[k], b[k]) - low;
      s.push_back(span > 0 ? (p[k] - low) / span : 0.0);
    }
    scaled.push_back(std::move(s));
  }
  return hypervolume(scaled, Point(a.size(), 1.0));
}

}  // namespace

const Trial* reference_trial(const Study& study) {
  const Trial* published = study.find("published");
  return published ? published : study.find("full");
}

std::vector<size_t> front_of(const Study& study, const std::vector<std::string>& objectives) {
  const auto& trials = study.trials();
  std::vector<Point> points;
  for (const Trial& t : trials) points.push_back(point_of(t, objectives));
  std::vector<size_t> front = pareto_front(points);
  std::erase_if(front, [&](size_t i) { return trials[i].id == "float" || trials[i].id == "published"; });
  std::stable_sort(front.begin(), front.end(), [&](size_t a, size_t b) {
    return trials[a].measurement->size_bytes < trials[b].measurement->size_bytes;
  });
  return front;
}

Summary summarize(const Study& study, const std::filesystem::path& dir, const Ending& ending) {
  const Trial* baseline = study.find("float");
  const Trial* full = reference_trial(study);
  if (!baseline || !full || !baseline->measurement || !full->measurement)
    throw Error(Code::kInvalidInput,
                "[report] the study holds no float or fully quantized trial that worked; both were "
                "expected; run `seqto tune` again");
  double float_size = static_cast<double>(baseline->measurement->size_bytes);
  double full_size = static_cast<double>(full->measurement->size_bytes);
  auto to_point = [&](const Trial& trial) {
    SummaryPoint p{trial, {}, {}, 0};
    if (trial.measurement && float_size != full_size)
      p.size_reduction_kept =
          (float_size - static_cast<double>(trial.measurement->size_bytes)) / (float_size - full_size);
    if (auto it = ending.latencies.find(trial.id); it != ending.latencies.end() && p.trial.measurement)
      p.trial.measurement->latency = it->second;
    std::string file = "models/" + trial.id + ".onnx", plan = "plans/" + trial.id + ".json";
    if (std::filesystem::exists(dir / file)) p.file = file;
    if (std::filesystem::exists(dir / plan)) p.plan_file = plan;
    return p;
  };

  Summary s;
  s.header = study.header();
  s.objectives = ending.objectives;
  s.baseline = to_point(*baseline);
  s.fully_quantized = to_point(*full);
  std::vector<Point> points;
  for (size_t i : front_of(study, ending.objectives)) {
    s.front.push_back(to_point(study.trials()[i]));
    points.push_back(point_of(study.trials()[i], ending.objectives));
  }
  for (size_t i : nearest_to_ideal(points, 3)) s.top.push_back(s.front[i].trial.id);
  s.selected = s.top.empty() ? baseline->id : s.top.front();
  s.hypervolume =
      scaled_hypervolume(points, point_of(*baseline, ending.objectives), point_of(*full, ending.objectives));
  for (const Trial& t : study.trials()) s.trials.push_back(to_point(t));
  if (const auto* text = study.noted("sensitivity")) s.sensitivity = sensitivity_from_json(*text);
  if (const auto* text = study.noted("layers")) s.layers = layers_from_json(*text);
  s.evaluations = static_cast<int64_t>(study.trials().size());
  s.wall_seconds = ending.wall_seconds;
  s.notes = ending.notes;
  return s;
}

}  // namespace seqto::internal
