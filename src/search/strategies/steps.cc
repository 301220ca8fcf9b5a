#include "search/strategies/steps.h"

#include <algorithm>
#include <optional>

#include "search/strategies/knapsack.h"

namespace seqto::internal {

std::vector<Step> steps_from(Assignments& assignments, const Assignment& assignment, const SearchTuning* together) {
  std::vector<Step> steps;
  for (size_t g = 0; g < assignments.groups(); ++g)
    for (int c = 0; c < static_cast<int>(assignments.choices(g)); ++c)
      if (c != assignment[g]) steps.push_back({{g, c}});
  if (!together) return steps;
  std::vector<Assignment> targets{assignments.all_float()};
  for (const DetailedScheme& scheme : assignments.schemes()) targets.push_back(assignments.uniform(scheme));
  for (const std::vector<size_t>& sharing : assignments.shared_tensors()) {
    if (static_cast<double>(sharing.size()) > together->sharing) continue;
    for (const Assignment& target : targets) {
      Step step;
      for (size_t g : sharing)
        if (assignment[g] != target[g]) step.emplace_back(g, target[g]);
      if (step.size() > 1) steps.push_back(std::move(step));
    }
  }
  return steps;
}

Assignment after(Assignment assignment, const Step& step) {
  for (const auto& [group, choice] : step) assignment[group] = choice;
  return assignment;
}

std::vector<Assignment> descent(const LossModel& losses, Assignments& assignments, const ChoiceTable& cost) {
  const ChoiceTable each = losses.by_choice();
  if (losses.adds_up()) return chain_of(each, cost);
  Assignment now;
  for (size_t g = 0; g < cost.size(); ++g) {
    size_t cheapest = 0;
    for (size_t c = 1; c < cost[g].size(); ++c)
      if (std::pair(cost[g][c], each[g][c]) < std::pair(cost[g][cheapest], each[g][cheapest])) cheapest = c;
    now.push_back(static_cast<int>(cheapest));
  }
  std::vector<Assignment> plans{now};
  for (double loss = losses.loss_of(now);;) {
    struct Best {
      Step step;
      double worth;
    };
    std::optional<Best> best;
    for (Step& step : steps_from(assignments, now, &losses.tuning())) {
      double price = 0;
      for (const auto& [g, c] : step) price += cost[g][static_cast<size_t>(c)] - cost[g][static_cast<size_t>(now[g])];
      const double saved = -losses.change(now, step);
      constexpr double kLeast = 1e-6;  // of the loss: each step is one, and there is an end
      if (!(saved > 0 && saved > kLeast * loss)) continue;
      constexpr double kFree = 1e-9;
      const double worth = saved / std::max(price, kFree);
      if (!best || worth > best->worth) best = Best{std::move(step), worth};
    }
    if (!best) return plans;
    now = after(std::move(now), best->step);
    loss = losses.loss_of(now);
    plans.push_back(now);
  }
}

}  // namespace seqto::internal
