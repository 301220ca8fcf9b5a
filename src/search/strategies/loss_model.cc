#include "search/strategies/loss_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace seqto::internal {
namespace {

bool is_one_in(const Assignment& assignment) {
  return std::ranges::count_if(assignment, [](int choice) { return choice != 0; }) == 1;
}

// visit(group, choice) of the scheme's choices.
template <class Visit>
void for_each_choice(const Assignments& assignments, const DetailedScheme& scheme, Visit visit) {
  for (size_t g = 0; g < assignments.groups(); ++g)
    for (size_t c = 1; c < assignments.choices(g); ++c)
      if (assignments.scheme(g, static_cast<int>(c)) == scheme) visit(g, c);
}

}  // namespace

double uniform_loss(const Archive& archive, const Assignments& assignments, const DetailedScheme& scheme) {
  const Entry* entry = archive.find(assignments.uniform(scheme));
  return entry && entry->search && std::isfinite(*entry->search) ? std::max(0.0, *entry->search) : 0;
}

double negligible_loss(const Archive& archive, const Assignments& assignments) {
  double worst = 0;
  for (const DetailedScheme& scheme : assignments.schemes())
    worst = std::max(worst, uniform_loss(archive, assignments, scheme));
  return archive.tuning().negligible * worst;
}

double mildest_loss(const Archive& archive, const Assignments& assignments) {
  double least = std::numeric_limits<double>::infinity();
  for (const DetailedScheme& scheme : assignments.schemes())
    if (const double loss = uniform_loss(archive, assignments, scheme); scheme.scheme != Scheme::kFloat16 && loss > 0)
      least = std::min(least, loss);
  return least;
}

ChoiceTable unscaled_losses(const Archive& archive, Assignments& assignments) {
  ChoiceTable losses;
  for (size_t g = 0; g < assignments.groups(); ++g)
    losses.emplace_back(assignments.choices(g), std::numeric_limits<double>::quiet_NaN())[0] = 0;
  // Differences of infinities would mean nothing.
  double ruin = 1e-6;
  for (const Entry& entry : archive.entries())
    if (entry.search && std::isfinite(*entry.search)) ruin = std::max(ruin, 1e3 * *entry.search);
  for (const Entry& entry : archive.entries()) {
    if (!entry.search || !is_one_in(entry.assignment)) continue;
    const size_t g = std::ranges::find_if(entry.assignment, [](int c) { return c != 0; }) - entry.assignment.begin();
    losses[g][entry.assignment[g]] = std::clamp(*entry.search, 0.0, ruin);
  }
  const ChoiceTable& bytes = assignments.bytes_saved();
  for (const DetailedScheme& scheme : assignments.schemes()) {
    double all = 0;
    for_each_choice(assignments, scheme, [&](size_t g, size_t c) { all += std::max(1.0, bytes[g][c]); });
    const Entry* everywhere = archive.find(assignments.uniform(scheme));
    const bool failed = everywhere && everywhere->search && std::isinf(*everywhere->search);
    const double uniform = failed ? ruin : uniform_loss(archive, assignments, scheme);
    for_each_choice(assignments, scheme, [&](size_t g, size_t c) {
      if (std::isnan(losses[g][c])) losses[g][c] = uniform * std::max(1.0, bytes[g][c]) / all;
    });
  }
  return losses;
}

ChoiceTable expected_losses(const Archive& archive, Assignments& assignments) {
  ChoiceTable losses = unscaled_losses(archive, assignments);
  for (const DetailedScheme& scheme : assignments.schemes()) {
    double sum = 0;
    for_each_choice(assignments, scheme, [&](size_t g, size_t c) { sum += losses[g][c]; });
    const double uniform = uniform_loss(archive, assignments, scheme);
    if (sum > 0 && uniform > 0)
      for_each_choice(assignments, scheme, [&](size_t g, size_t c) { losses[g][c] *= uniform / sum; });
  }
  return losses;
}

}  // namespace seqto::internal
