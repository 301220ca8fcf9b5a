#include "orchestrator/study/recommend.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "metrics/decode_speed.h"
#include "metrics/task/task_metric_kinds.h"
#include "orchestrator/study/summarize.h"
#include "visualizer/points.h"

namespace seqto::internal {
namespace {

std::string judged_by(const Measurement& baseline, const std::vector<std::string>& objectives) {
  const std::string loss = loss_name(objectives);
  if (is_task_metric(loss)) return loss;
  return has_classes(baseline, loss) ? "top1_disagreement" : "nmse";  // relative to the outputs' own size
}

// How much worse than float it may be, as far as the samples tell.
double worst(const SummaryPoint& point, const std::string& figure) {
  const auto interval = judged_interval(point, figure);
  return interval ? interval->high : loss_of(point, figure);
}

// A detector's answers may be near float's in their numbers, and its boxes not where the objects are. So may
// embeddings, and other texts be nearest.
bool finds_as_much(const SummaryPoint& point, double tolerance) {
  return std::ranges::none_of(point.drops, [&](const auto& drop) {
    return (is_average_precision(drop.first) || drop.first == "topk_overlap") && drop.second.value > tolerance;
  });
}

// Slower than float, and what it costs: less is better.
using Cost = std::pair<bool, double>;

// What is small enough whatever it is. By Pinsker's inequality a KL of at most 2 tolerance^2 leaves distributions no
// more than the tolerance apart. An nmse within the tolerance is as good as float where no classes say more; that of
// vectors of length 1 is twice their cosine distance.
double small_enough(const std::string& loss, double tolerance) {
  return loss == "kl" ? 2 * tolerance * tolerance : loss == "nmse" ? tolerance : loss == "cosine" ? tolerance / 2 : 0;
}

// Where none is surely as good: what a tolerance is held against decides, its least upper end. Of those that have the
// same, as of samples none of which changed, the loss that the search follows, of a task metric its stand-in. It sees
// more than whole answers.
const SummaryPoint& nearest(const DeviceFront& d, const std::string& loss,
                            const std::function<Cost(const SummaryPoint&)>& cost) {
  const auto or_infinity = [](double value) {
    return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
  };
  return *std::ranges::min_element(d.front, {}, [&](const SummaryPoint& p) {
    const double found = or_infinity(std::max(loss_of(p, loss), worst(p, loss)));
    const bool small = found <= small_enough(loss, d.tolerance);
    return std::tuple(or_infinity(worst(p, d.judged_by)), small ? 0 : found, cost(p));
  });
}

double share(double value, double of) { return of > 0 && value > 0 ? value / of : 1; }

}  // namespace

void recommend(DeviceFront& d, const std::vector<std::string>& objectives) {
  const Measurement& reference = *d.baseline.trial.measurement;
  const auto has = [&](const char* name) { return std::ranges::find(objectives, name) != objectives.end(); };
  // What cannot be told apart costs the same.
  const auto share_of = [](Speed speed, const Latency& found, const Latency& of) {
    return speed == Speed::kSame ? 1 : ratio_of(found, of);
  };
  const auto latency = [&](const SummaryPoint& p) {
    const Latency &found = p.trial.measurement->latency, &of = reference.latency;
    return has("latency") ? share_of(speed_of(found, of), found, of) : 1;
  };
  const auto decode = [&](const SummaryPoint& p) {
    const auto &found = p.trial.measurement->decode_latency, &of = reference.decode_latency;
    return has("decode_latency") && found && of ? share_of(decode_speed(*found, *of), *found, *of) : 1;
  };
  const auto cost = [&](const SummaryPoint& p) {
    const double size =
        share(static_cast<double>(p.trial.measurement->size_bytes), static_cast<double>(reference.size_bytes));
    return (has("size") || !counts_time(objectives) ? size : 1) * latency(p) * decode(p);
  };
  d.judged_by = judged_by(reference, objectives);
  const auto ranked = [&](const SummaryPoint& p) { return Cost(latency(p) > 1 || decode(p) > 1, cost(p)); };
  const SummaryPoint* best = nullptr;
  for (const SummaryPoint& p : d.front) {
    if (!(worst(p, d.judged_by) <= d.tolerance) || !finds_as_much(p, d.tolerance)) continue;
    if (!best || ranked(p) < ranked(*best)) best = &p;
  }
  d.as_good_as_float = best != nullptr;
  if (!best) best = &nearest(d, followed_loss(objectives), ranked);
  d.selected = best->trial.id;
}

}  // namespace seqto::internal
