#include "visualizer/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/json.h"
#include "metrics/limits.h"
#include "seqto/task.h"
#include "visualizer/format.h"

namespace seqto::internal {

std::vector<const SummaryPoint*> points(const Summary& summary) {
  std::vector<const SummaryPoint*> all;
  std::unordered_set<std::string> seen;
  const auto add = [&](const SummaryPoint& point) {
    if (!point.trial.id.empty() && seen.insert(point.trial.id).second)
      all.push_back(find_point(summary, point.trial.id));
  };
  add(summary.baseline);
  add(summary.fully_quantized);
  for (const auto& point : summary.trials) add(point);
  for (const auto& point : summary.front) add(point);
  return all;
}

const SummaryPoint* find_point(const Summary& summary, const std::string& id) {
  const auto is_it = [&](const SummaryPoint& point) { return point.trial.id == id; };
  for (const auto* list : {&summary.front, &summary.trials}) {
    const auto found = std::find_if(list->begin(), list->end(), is_it);
    if (found != list->end()) return &*found;
  }
  for (const auto* point : {&summary.baseline, &summary.fully_quantized}) {
    if (!id.empty() && is_it(*point)) return point;
  }
  return nullptr;
}

bool on_front(const Summary& summary, const std::string& id) {
  return std::any_of(summary.front.begin(), summary.front.end(),
                     [&](const SummaryPoint& point) { return point.trial.id == id; });
}

Summary on_device(const Summary& summary, const DeviceFront& device) {
  Summary result = summary;
  static_cast<DeviceFront&>(result) = device;
  result.elsewhere.clear();
  return result;
}

std::vector<LayerId> where_choices_differ(const Summary& summary) {
  std::vector<LayerId> layers;
  const auto* first = find_point(summary, summary.selected);
  if (!first) return layers;
  for (const Layer& layer : summary.layers) {
    const DetailedScheme scheme = detailed_scheme(first->trial.plan, layer.id);
    const auto differs = [&](const DeviceFront& device) {
      // Plans do not depend on the device: any list of trials has them all.
      const auto* other = find_point(summary, device.selected);
      return other && detailed_scheme(other->trial.plan, layer.id) != scheme;
    };
    if (std::any_of(summary.elsewhere.begin(), summary.elsewhere.end(), differs)) layers.push_back(layer.id);
  }
  return layers;
}

int rank(const Summary& summary, const std::string& id) {
  const auto found = std::find(summary.top.begin(), summary.top.end(), id);
  return found == summary.top.end() ? 0 : static_cast<int>(found - summary.top.begin()) + 1;
}

bool is_for_another_device(const Summary& summary) {
  const auto options = parse_json_if_any(summary.header.options_json);
  return options.is_object() && options.contains("target") && std::ranges::count(summary.objectives, "latency") == 0;
}

bool times_decoding(const Summary& summary) {
  const auto& float_model = summary.baseline.trial.measurement;
  return float_model && float_model->decode_latency;
}

std::string loss_name(const std::vector<std::string>& objectives) {
  const auto loss = std::ranges::find_if_not(objectives, is_cost);
  return loss == objectives.end() ? "kl" : *loss;
}

bool has_classes(const Measurement& measurement, const std::string& loss) {
  const std::string followed = followed_loss({loss});
  return (followed != "mse" && followed != "nmse" && followed != "cosine") || measurement.metrics.contains("top1");
}

std::string worst_output_text(const Measurement& measurement) {
  const auto& worst = measurement.worst_output;
  return worst ? fmt::format("'{}' loses most of {} outputs: nmse {}", worst->name, worst->outputs,
                             format_figure(worst->nmse))
               : "";
}

std::string loss_label(const std::string& name) { return is_task_metric(name) ? name + " drop" : name; }

double loss_of(const SummaryPoint& point, const std::string& name) {
  if (!point.trial.measurement) return std::numeric_limits<double>::quiet_NaN();
  if (is_loss(name)) return objective(*point.trial.measurement, name);
  if (const auto drop = point.drops.find(name); drop != point.drops.end()) return drop->second.value;
  // The float model's own; a study without labels has no such metric: nothing to draw.
  return point.trial.id == "float" && point.trial.measurement->metrics.contains(name)
             ? 0
             : std::numeric_limits<double>::quiet_NaN();
}

std::optional<Interval> loss_interval(const SummaryPoint& point, const std::string& name) {
  if (!point.trial.measurement) return {};
  if (is_task_metric(name)) {
    const auto drop = point.drops.find(name);
    return drop == point.drops.end() ? std::nullopt : drop->second.interval;
  }
  const auto& intervals = point.trial.measurement->intervals;
  const auto found = intervals.find(name);
  return found == intervals.end() ? std::nullopt : std::optional(found->second);
}

int64_t samples_for(double share) {
  return share > 0 && share < 1 ? static_cast<int64_t>(std::ceil(std::log(0.025) / std::log1p(-share))) : 0;
}

std::optional<Interval> judged_interval(const SummaryPoint& point, const std::string& figure) {
  if (!point.trial.measurement) return {};
  return trusted_interval(*point.trial.measurement, figure, loss_of(point, figure), loss_interval(point, figure));
}

bool is_doubtful(const Latency& latency, const Latency& of_float) {
  return std::abs(ratio_of(latency, of_float) - 1) >= kSame && speed_of(latency, of_float) == Speed::kSame;
}

std::string format_doubt(const Latency& latency, const Latency& of_float) {
  const auto& ratio = latency.over_float;
  // Rounds that are too few for an interval rule no ratio out.
  if (ratio && ratio->interval.low <= 0) return fmt::format("{:.2f} x float's in too few rounds", ratio->value);
  if (ratio) {
    std::string text =
        fmt::format("{:.2f} x float's ({:.2f} to {:.2f})", ratio->value, ratio->interval.low, ratio->interval.high);
    const bool rules_out_one = ratio->interval.low > 1 || ratio->interval.high < 1;
    if (rules_out_one && latency.p10_ns > 0 && of_float.p10_ns > 0)  // see speed_of()
      text += fmt::format(", of the fastest runs {:.2f} x",
                          static_cast<double>(latency.p10_ns) / static_cast<double>(of_float.p10_ns));
    return text;
  }
  return fmt::format("nine runs in ten {}, float's {}", format_durations(latency.p10_ns, latency.p90_ns),
                     format_durations(of_float.p10_ns, of_float.p90_ns));
}

bool takes_codes(const Layer& layer) {
  return layer.quantizable || std::ranges::count(layer.schemes, Scheme::kInt8Weights) > 0;
}

int64_t float_layers(const Summary& summary, const Plan& plan) {
  if (summary.layers.empty()) return -1;
  return std::count_if(summary.layers.begin(), summary.layers.end(), [&](const Layer& layer) {
    return takes_codes(layer) && detailed_scheme(plan, layer.id).scheme == Scheme::kFloat32;
  });
}

bool tells_kept(const Summary& summary) {
  constexpr double kLeast = 0.1;
  const auto &before = summary.baseline.trial.measurement, &full = summary.fully_quantized.trial.measurement;
  return before && full &&
         static_cast<double>(full->size_bytes) <= (1 - kLeast) * static_cast<double>(before->size_bytes);
}

bool has_random_data(const Summary& summary) {
  const auto options = parse_json_if_any(summary.header.options_json);
  return options.is_object() && options.value("data", "") == "random";
}

std::string model_name(const Summary& summary) {
  const std::filesystem::path path = summary.header.model_path;
  const auto name = path.stem().string(), folder = path.parent_path().filename().string();
  // Many a file is called model.onnx in a folder that says which.
  if (name == "model" && !folder.empty() && folder != "." && folder != "..") return folder;
  return name.empty() ? "model" : name;
}

}  // namespace seqto::internal
