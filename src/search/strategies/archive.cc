#include "search/strategies/archive.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "search/strategies/strategies.h"

namespace seqto::internal {

Archive::Archive(const SearchSpace& space, const StrategyOptions& options)
    : space_(space), tuning_(options.tuning), max_size_(options.max_size_bytes), max_latency_(options.max_latency_ns) {
  const auto asked = [&](const char* name) { return std::ranges::count(options.objectives, name) > 0; };
  by_latency_ = asked("latency") && space.latency_of;
  by_size_ = asked("size") || !by_latency_;
  loss_ = followed_loss(options.objectives);
  steady_ = asked("latency");
  if (auto found = std::ranges::find_if(options.objectives, is_task_metric); found != options.objectives.end())
    metric_ = *found;
  // The front says nothing of what is no objective.
  if (!by_size_) max_size_ = std::numeric_limits<double>::infinity();
  if (!by_latency_) max_latency_ = std::numeric_limits<double>::infinity();
}

std::vector<double> Archive::mixtures() const {
  if (!by_latency_) return {1};
  if (!by_size_) return {0};
  constexpr double kLeast = 0.02;  // where time counts alone, size still tells apart what takes the same time
  std::vector<double> shares;
  for (double i = 0; i < tuning_.mixtures; ++i) shares.push_back(std::max(kLeast, 1 - i / (tuning_.mixtures - 1)));
  return shares;
}

std::optional<Assignment> Archive::read(const Plan& plan) const {
  Assignment assignment;
  size_t layers = 0;
  for (const SearchGroup& group : space_.groups) {
    const auto equal = [&](const Plan& choice) {
      return std::ranges::all_of(group.layers, [&](const LayerId& layer) {
        return detailed_scheme(choice, layer) == detailed_scheme(plan, layer);
      });
    };
    const auto choice = std::ranges::find_if(group.choices, equal);
    if (choice == group.choices.end()) return {};
    assignment.push_back(static_cast<int>(choice - group.choices.begin()));
    layers += choice->schemes.size();
  }
  if (layers != plan.schemes.size()) return {};  // layers of no group
  return assignment;
}

void Archive::update(const Study& study) {
  for (; seen_ < study.trials().size(); ++seen_) {
    const Trial& trial = study.trials()[seen_];
    if (trial.part != Part::kEvaluation && trial.step != kBoundStep) ++evaluations_;
    if (trial.id == "published" || trial.id == "float") continue;  // made with other options, or the reference itself
    std::optional<Assignment> assignment = read(trial.plan);
    if (!assignment) continue;
    const auto [place, is_new] = places_.try_emplace(*assignment, entries_.size());
    if (is_new) {
      Entry entry{.assignment = *std::move(assignment), .step = trial.step};
      if (by_latency_) entry.latency = space_.latency_of(trial.plan);
      entries_.push_back(std::move(entry));
    }
    Entry& entry = entries_[place->second];
    if (trial.measurement) entry.size = static_cast<double>(trial.measurement->size_bytes);
    const double loss = trial.measurement && trial.failure.empty() ? objective(*trial.measurement, loss_)
                                                                   : std::numeric_limits<double>::infinity();
    if (trial.part == Part::kEvaluation) {
      entry.evaluation = loss;
      if (study.header().search_samples == 0) entry.search = loss;  // each plan is measured once
      continue;
    }
    const bool is_search = trial.part == Part::kSearch;
    // One with other objectives, that the study goes on from, had none: losses of two kinds make no front.
    if (trial.measurement && std::isfinite(loss) && !std::exchange(knows_steady_, true))
      steady_ &= trial.measurement->pooled_kl.has_value();
    // The search's samples are the first half of them.
    const int64_t all = study.header().search_samples;
    const double mean = entry.means[trial.part] = mean_of(trial, loss, is_search ? all - all / 2 : all / 2);
    (is_search ? entry.search : entry.acceptance) =
        trial.measurement && steady_ ? steady_loss(*trial.measurement, loss_, mean) : mean;
    if (trial.measurement && trial.measurement->metrics.contains(metric_))
      entry.metric = objective(*trial.measurement, metric_);
  }
}

// Its loss over all the samples of its part: of so many.
double Archive::mean_of(const Trial& trial, double loss, int64_t all) {
  if (!trial.measurement || !std::isfinite(loss)) return loss;
  const auto found = trial.measurement->samples.find(loss_);
  if (!races() || found == trial.measurement->samples.end() || found->second.empty()) return loss;
  const std::vector<double>& losses = found->second;
  Difficulty& difficulty = difficulty_[trial.part];
  if (std::ssize(losses) < all) return extrapolated(losses, difficulty);
  if (loss > 0) {
    // Plans that lose much say most of it.
    difficulty.resize(losses.size());
    for (size_t i = 0; i < losses.size(); ++i) difficulty[i] += losses[i] / std::sqrt(loss);
  }
  return loss;
}

const Entry* Archive::find(const Assignment& assignment) const {
  const auto found = places_.find(assignment);
  return found == places_.end() ? nullptr : &entries_[found->second];
}

Point Archive::point(const Entry& entry, double loss) const {
  Point point;
  if (by_size_) point.push_back(entry.size);
  if (by_latency_) point.push_back(entry.latency);
  point.push_back(loss);
  return point;
}

template <class Has, class LossOf>
std::vector<const Entry*> Archive::front_by(Has has, LossOf loss_of) const {
  std::vector<const Entry*> candidates;
  std::vector<Point> points;
  for (const Entry& entry : entries_) {
    if (!has(entry)) continue;
    Point point = this->point(entry, std::invoke(loss_of, entry));
    if (!std::ranges::all_of(point, [](double value) { return std::isfinite(value); })) continue;
    candidates.push_back(&entry);
    points.push_back(std::move(point));
  }
  std::vector<const Entry*> front;
  for (size_t i : pareto_front(points)) front.push_back(candidates[i]);
  return front;
}

auto Archive::competing() const {
  const bool any = std::ranges::any_of(entries_, &Entry::confirmed);
  return [any](const Entry& e) { return any ? e.confirmed() : e.search.has_value(); };
}

std::vector<const Entry*> Archive::front() const { return front_by(competing(), &Entry::joint_loss); }

std::vector<const Entry*> Archive::search_front() const {
  return front_by([](const Entry& e) { return e.search.has_value(); }, [](const Entry& e) { return *e.search; });
}

std::vector<const Entry*> Archive::metric_front() const {
  return front_by([competes = competing()](const Entry& e) { return competes(e) && e.metric; },
                  [](const Entry& e) { return *e.metric; });
}

bool Archive::race(std::span<Proposal> proposals) const {
  if (proposals.empty() || !races()) return true;
  const Part part = proposals.front().part;
  if (part == Part::kAcceptance && !metric_.empty()) return true;
  const auto known = difficulty_.find(part);
  if (known == difficulty_.end() || known->second.empty()) return false;
  Race race{.loss = loss_,
            .least_samples = tuning_.race_samples,
            .share_seen = tuning_.race_seen,
            .difficulty = known->second};
  for (const Entry* entry : part == Part::kSearch ? search_front() : front())
    if (entry->on(part)) race.rivals.push_back({entry->size, entry->latency, entry->means.at(part)});
  for (Proposal& proposal : proposals) {
    race.latency_ns = by_latency_ ? space_.latency_of(proposal.plan) : 0;
    proposal.race = race;
  }
  return true;
}

}  // namespace seqto::internal
