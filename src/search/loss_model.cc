#include "search/loss_model.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

namespace seqto::internal {
namespace {

bool is_one_in(const Assignment& assignment) {
  return std::ranges::count_if(assignment, [](int choice) { return choice != 0; }) == 1;
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
  return 1e-4 * worst;
}

double mildest_loss(const Archive& archive, const Assignments& assignments) {
  double least = std::numeric_limits<double>::infinity();
  for (const DetailedScheme& scheme : assignments.schemes())
    if (const double loss = uniform_loss(archive, assignments, scheme); scheme.scheme != Scheme::kFloat16 && loss > 0)
      least = std::min(least, loss);
  return least;
}

ChoiceTable one_in_losses(const Archive& archive, Assignments& assignments) {
  ChoiceTable losses;
  for (size_t g = 0; g < assignments.groups(); ++g)
    losses.emplace_back(assignments.choices(g), std::numeric_limits<double>::quiet_NaN())[0] = 0;
  for (const Entry& entry : archive.entries()) {
    if (!entry.search || !is_one_in(entry.assignment)) continue;
    const size_t g = std::ranges::find_if(entry.assignment, [](int c) { return c != 0; }) - entry.assignment.begin();
    losses[g][entry.assignment[g]] = std::max(0.0, *entry.search);
  }
  // What was not measured: a share of its scheme's uniform plan, by the bytes that the choice saves.
  const ChoiceTable& bytes = assignments.bytes_saved();
  for (const DetailedScheme& scheme : assignments.schemes()) {
    double all = 0;
    const auto each = [&](auto&& visit) {
      for (size_t g = 0; g < assignments.groups(); ++g)
        for (size_t c = 1; c < assignments.choices(g); ++c)
          if (assignments.scheme(g, static_cast<int>(c)) == scheme) visit(g, c);
    };
    each([&](size_t g, size_t c) { all += std::max(1.0, bytes[g][c]); });
    const double uniform = uniform_loss(archive, assignments, scheme);
    each([&](size_t g, size_t c) {
      if (std::isnan(losses[g][c])) losses[g][c] = uniform * std::max(1.0, bytes[g][c]) / all;
    });
  }
  return losses;
}

ChoiceTable fitted_losses(const Archive& archive, Assignments& assignments, const ChoiceTable& one_in) {
  ChoiceTable prior = one_in;
  double smallest = std::numeric_limits<double>::infinity();
  for (const DetailedScheme& scheme : assignments.schemes()) {
    const double sum = total(one_in, assignments.uniform(scheme));
    const double uniform = uniform_loss(archive, assignments, scheme);
    const double scale = sum > 0 && uniform > 0 ? uniform / sum : 1;
    for (size_t g = 0; g < assignments.groups(); ++g)
      for (size_t c = 1; c < assignments.choices(g); ++c)
        if (assignments.scheme(g, static_cast<int>(c)) == scheme) prior[g][c] *= scale;
    if (uniform > 0) smallest = std::min(smallest, uniform);
  }

  std::vector<size_t> first(assignments.groups());  // column of a group's first alternative
  Eigen::Index columns = 0;
  for (size_t g = 0; g < assignments.groups(); ++g) {
    first[g] = static_cast<size_t>(columns);
    columns += static_cast<Eigen::Index>(assignments.choices(g)) - 1;
  }
  std::vector<const Entry*> rows;
  for (const Entry& entry : archive.entries())
    if (entry.search && std::isfinite(*entry.search) && !is_one_in(entry.assignment)) rows.push_back(&entry);
  if (rows.empty() || columns == 0) return prior;

  // In units of the prior: x = loss / prior - 1, whose standard deviation is a half.
  const double floor = std::isfinite(smallest) ? 0.01 * smallest : 1e-12;
  Eigen::VectorXd unit(columns);
  for (size_t g = 0; g < assignments.groups(); ++g)
    for (size_t c = 1; c < assignments.choices(g); ++c)
      unit[static_cast<Eigen::Index>(first[g] + c - 1)] = std::max(prior[g][c], 1e-15);
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(rows.size()), columns);
  Eigen::VectorXd b(rows.size());
  constexpr double kNoise = 0.1;  // of a plan's loss: how well sums of right terms predict it
  for (size_t r = 0; r < rows.size(); ++r) {
    const double weight = 1 / (kNoise * (std::max(0.0, *rows[r]->search) + floor));
    const auto row = static_cast<Eigen::Index>(r);
    double predicted = 0;
    for (size_t g = 0; g < assignments.groups(); ++g) {
      const int c = rows[r]->assignment[g];
      if (c == 0) continue;
      const auto column = static_cast<Eigen::Index>(first[g]) + c - 1;
      a(row, column) = unit[column] * weight;
      predicted += prior[g][c];
    }
    b[row] = (*rows[r]->search - predicted) * weight;
  }
  constexpr double kPriorDeviation = 0.5;
  Eigen::MatrixXd normal = a.transpose() * a;
  normal.diagonal().array() += 1 / (kPriorDeviation * kPriorDeviation);
  const Eigen::VectorXd x = normal.ldlt().solve(a.transpose() * b);
  for (size_t g = 0; g < assignments.groups(); ++g)
    for (size_t c = 1; c < assignments.choices(g); ++c)
      prior[g][c] *= std::max(0.1, 1 + x[static_cast<Eigen::Index>(first[g] + c - 1)]);
  return prior;
}

}  // namespace seqto::internal
