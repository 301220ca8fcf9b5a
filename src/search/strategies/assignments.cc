#include "search/strategies/assignments.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

namespace seqto::internal {

Assignments::Assignments(const SearchSpace& space) : space_(space) {
  for ([[maybe_unused]] const SearchGroup& group : space.groups)
    assert(!group.choices.empty() && group.choices[0] == Plan() && group.choices.size() == group.schemes.size());
}

Plan Assignments::plan(const Assignment& assignment) const {
  Plan plan;
  for (size_t g = 0; g < assignment.size(); ++g) {
    const Plan& choice = space_.groups[g].choices[assignment[g]];
    plan.schemes.insert(choice.schemes.begin(), choice.schemes.end());
    plan.options.insert(choice.options.begin(), choice.options.end());
  }
  return plan;
}

Assignment Assignments::uniform(const DetailedScheme& scheme) const {
  Assignment assignment = all_float();
  for (size_t g = 0; g < groups(); ++g) {
    const std::vector<DetailedScheme>& schemes = space_.groups[g].schemes;
    if (const auto found = std::ranges::find(schemes, scheme); found != schemes.end())
      assignment[g] = static_cast<int>(found - schemes.begin());
  }
  return assignment;
}

std::vector<DetailedScheme> Assignments::schemes() const {
  std::set<DetailedScheme> found;
  for (const SearchGroup& group : space_.groups) found.insert(group.schemes.begin() + 1, group.schemes.end());
  return {found.begin(), found.end()};
}

std::vector<DetailedScheme> Assignments::schemes_by_bytes() {
  std::vector<DetailedScheme> result = schemes();
  std::ranges::stable_sort(result, std::greater(),
                           [&](const DetailedScheme& scheme) { return total(bytes_saved(), uniform(scheme)); });
  return result;
}

const ChoiceTable& Assignments::bytes_saved() {
  if (bytes_) return *bytes_;
  bytes_.emplace();
  const auto whole = static_cast<double>(space_.size_of({}));
  for (size_t g = 0; g < groups(); ++g) {
    std::vector<double>& row = bytes_->emplace_back(choices(g), 0.0);
    for (size_t c = 1; c < row.size(); ++c)
      row[c] = whole - static_cast<double>(space_.size_of(space_.groups[g].choices[c]));
  }
  return *bytes_;
}

double Assignments::share_to_save(double size_bytes) {
  double most = 0;
  for (const auto& row : bytes_saved()) most += std::max(0.0, *std::ranges::max_element(row));
  const double wanted = static_cast<double>(space_.size_of({})) - size_bytes;
  return most > 0 ? std::clamp(wanted / most, 0.0, 1.0) : 0;
}

const ChoiceTable& Assignments::time_saved() {
  if (time_) return *time_;
  time_.emplace();
  Assignment fastest = all_float();
  for (const DetailedScheme& scheme : schemes())
    if (Assignment other = uniform(scheme); space_.latency_of(plan(other)) < space_.latency_of(plan(fastest)))
      fastest = std::move(other);
  for (size_t g = 0; g < groups(); ++g) {
    std::vector<double>& row = time_->emplace_back(choices(g), 0.0);
    Assignment other = fastest;
    other[g] = 0;
    const double in_float = space_.latency_of(plan(other));
    for (size_t c = 1; c < row.size(); ++c) {
      other[g] = static_cast<int>(c);
      row[c] = in_float - space_.latency_of(plan(other));
    }
  }
  return *time_;
}

ChoiceTable Assignments::costs(double share) {
  ChoiceTable costs;
  for (size_t g = 0; g < groups(); ++g) costs.emplace_back(choices(g), 0.0);
  const auto add = [&](const ChoiceTable& saved, double weight) {
    double most = 0;
    for (const auto& row : saved) most += std::max(0.0, *std::ranges::max_element(row));
    if (most <= 0) return;
    for (size_t g = 0; g < costs.size(); ++g)
      for (size_t c = 0; c < costs[g].size(); ++c) costs[g][c] -= weight * saved[g][c] / most;
  };
  if (share > 0) add(bytes_saved(), share);
  if (share < 1) add(time_saved(), 1 - share);
  return costs;
}

double total(const ChoiceTable& table, const Assignment& assignment) {
  double sum = 0;
  for (size_t g = 0; g < assignment.size(); ++g) sum += table[g][assignment[g]];
  return sum;
}

}  // namespace seqto::internal
