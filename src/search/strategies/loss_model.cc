#include "search/strategies/loss_model.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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
  return archive.tuning().negligible * worst;
}

double mildest_loss(const Archive& archive, const Assignments& assignments) {
  double least = std::numeric_limits<double>::infinity();
  for (const DetailedScheme& scheme : assignments.schemes())
    if (const double loss = uniform_loss(archive, assignments, scheme); scheme.scheme != Scheme::kFloat16 && loss > 0)
      least = std::min(least, loss);
  return least;
}

LossModel::LossModel(const Archive& archive, Assignments& assignments)
    : assignments_(assignments), tuning_(archive.tuning()) {
  for (size_t g = 0; g < assignments.groups(); ++g) {
    own_.emplace_back(assignments.choices(g), std::numeric_limits<double>::quiet_NaN())[0] = 0;
    std::vector<bool>& row = static_.emplace_back(assignments.choices(g));
    for (size_t c = 0; c < row.size(); ++c) row[c] = assignments.scheme(g, static_cast<int>(c)).scheme == Scheme::kInt8;
  }
  // What failed counts as much worse than anything that ran; differences of infinities would mean nothing.
  double ruin = 1e-6;
  for (const Entry& entry : archive.entries())
    if (entry.search && std::isfinite(*entry.search)) ruin = std::max(ruin, 1e3 * *entry.search);
  for (const Entry& entry : archive.entries()) {
    if (!entry.search || !is_one_in(entry.assignment)) continue;
    const size_t g = std::ranges::find_if(entry.assignment, [](int c) { return c != 0; }) - entry.assignment.begin();
    own_[g][entry.assignment[g]] = std::clamp(*entry.search, 0.0, ruin);
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
      if (std::isnan(own_[g][c])) own_[g][c] = uniform * std::max(1.0, bytes[g][c]) / all;
    });
  }
  spread_static();
}

void LossModel::spread_static() {
  const size_t groups = own_.size();
  std::vector<double> beyond(groups);  // of the best static choice, beyond what its weights lose
  for (size_t g = 0; g < groups; ++g) {
    double least = std::numeric_limits<double>::infinity(), weights = 0;
    for (size_t c = 1; c < own_[g].size(); ++c) {
      if (static_[g][c]) least = std::min(least, own_[g][c]);
      if (assignments_.scheme(g, static_cast<int>(c)).scheme == Scheme::kInt8Weights) weights = own_[g][c];
    }
    if (std::isfinite(least)) beyond[g] = std::max(0.0, least - weights);
  }
  // Only static groups can lose a tensor.
  const auto has_static = [&](size_t g) { return std::ranges::find(static_[g], true) != static_[g].end(); };
  for (std::vector<size_t> touching : assignments_.shared_tensors()) {
    std::erase_if(touching, [&](size_t g) { return !has_static(g); });
    if (touching.size() > 1) shared_.push_back({std::move(touching), 0});
  }
  if (shared_.empty()) return;
  shared_by_.resize(groups);
  for (size_t t = 0; t < shared_.size(); ++t)
    for (size_t g : shared_[t].groups) shared_by_[g].push_back(t);
  // The first columns are the shared tensors, the others what is within each group.
  std::vector<std::vector<size_t>> terms = shared_by_;
  for (size_t g = 0; g < groups; ++g) terms[g].push_back(shared_.size() + g);
  const double mean = std::accumulate(beyond.begin(), beyond.end(), 0.0) / static_cast<double>(groups);
  // One choice at a time cannot tell what a group shares from what it has alone; most is lost between layers.
  std::vector<double> loss(shared_.size() + groups, mean);
  for (size_t g = 0; g < groups; ++g) loss[shared_.size() + g] *= tuning_.within;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> ratio(loss.size()), count(loss.size());
    for (size_t g = 0; g < groups; ++g) {
      double sum = 0;
      for (size_t t : terms[g]) sum += loss[t];
      for (size_t t : terms[g]) ratio[t] += sum > 0 ? beyond[g] / sum : 0, count[t] += 1;
    }
    for (size_t t = 0; t < loss.size(); ++t) loss[t] *= ratio[t] / count[t];
  }
  for (size_t t = 0; t < shared_.size(); ++t) shared_[t].loss = loss[t];
  for (size_t g = 0; g < groups; ++g) {
    const double within = loss[shared_.size() + g];
    for (size_t c = 1; c < own_[g].size(); ++c)
      if (static_[g][c]) own_[g][c] = std::max(0.0, own_[g][c] - beyond[g]) + within;
  }
}

bool LossModel::is_lost(const Shared& tensor, const Assignment& assignment) const {
  return std::ranges::any_of(tensor.groups, [&](size_t g) { return is_static(g, assignment[g]); });
}

double LossModel::loss_of(const Assignment& assignment) const {
  double loss = total(own_, assignment);
  for (const Shared& tensor : shared_)
    if (is_lost(tensor, assignment)) loss += tensor.loss;
  return loss;
}

double LossModel::change(const Assignment& assignment, const Step& step) const {
  double change = 0;
  for (const auto& [g, c] : step)
    change += own_[g][static_cast<size_t>(c)] - own_[g][static_cast<size_t>(assignment[g])];
  if (shared_.empty()) return change;
  const auto after = [&](size_t group) {
    const auto moved = std::ranges::find(step, group, &Step::value_type::first);
    return moved == step.end() ? assignment[group] : moved->second;
  };
  std::vector<size_t> touched;
  for (const auto& [g, c] : step) touched.insert(touched.end(), shared_by_[g].begin(), shared_by_[g].end());
  std::ranges::sort(touched);
  touched.erase(std::ranges::unique(touched).begin(), touched.end());
  for (size_t t : touched) {
    const Shared& tensor = shared_[t];
    const bool then = std::ranges::any_of(tensor.groups, [&](size_t g) { return is_static(g, after(g)); });
    change += tensor.loss * (static_cast<int>(then) - static_cast<int>(is_lost(tensor, assignment)));
  }
  return change;
}

ChoiceTable LossModel::by_choice() const {
  ChoiceTable table = own_;
  for (const Shared& tensor : shared_)
    for (size_t g : tensor.groups)
      for (size_t c = 1; c < table[g].size(); ++c)
        if (static_[g][c]) table[g][c] += tensor.loss / static_cast<double>(tensor.groups.size());
  return table;
}

void LossModel::scale_to_uniform(const Archive& archive) {
  for (const DetailedScheme& scheme : assignments_.schemes()) {
    if (scheme.scheme == Scheme::kInt8 && !shared_.empty()) continue;
    const double sum = total(own_, assignments_.uniform(scheme));
    const double uniform = uniform_loss(archive, assignments_, scheme);
    const double scale = sum > 0 && uniform > 0 ? uniform / sum : 1;
    for (size_t g = 0; g < own_.size(); ++g)
      for (size_t c = 1; c < own_[g].size(); ++c)
        if (assignments_.scheme(g, static_cast<int>(c)) == scheme) own_[g][c] *= scale;
  }
}

void LossModel::fit(const Archive& archive) {
  scale_to_uniform(archive);
  double smallest = std::numeric_limits<double>::infinity();
  std::vector<Assignment> uniform;  // static ones
  for (const DetailedScheme& scheme : assignments_.schemes()) {
    if (const double loss = uniform_loss(archive, assignments_, scheme); loss > 0) smallest = std::min(smallest, loss);
    if (scheme.scheme == Scheme::kInt8 && !shared_.empty()) uniform.push_back(assignments_.uniform(scheme));
  }
  std::vector<const Entry*> rows;
  for (const Entry& entry : archive.entries())
    if (entry.search && std::isfinite(*entry.search) && !is_one_in(entry.assignment) &&
        std::ranges::find(uniform, entry.assignment) == uniform.end())
      rows.push_back(&entry);

  std::vector<size_t> first(own_.size());  // column of a group's first alternative
  std::vector<double*> terms;
  for (size_t g = 0; g < own_.size(); ++g) {
    first[g] = terms.size();
    for (size_t c = 1; c < own_[g].size(); ++c) terms.push_back(&own_[g][c]);
  }
  const size_t first_shared = terms.size();
  for (Shared& tensor : shared_) terms.push_back(&tensor.loss);
  if (rows.empty() || terms.empty()) return;

  // In units of the terms: x = loss / term - 1, whose standard deviation is `fit_prior`.
  const double floor = std::isfinite(smallest) ? 0.01 * smallest : 1e-12;
  const auto columns = static_cast<Eigen::Index>(terms.size());
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(rows.size()), columns);
  Eigen::VectorXd b(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    const Assignment& assignment = rows[r]->assignment;
    const double weight = 1 / (tuning_.fit_noise * (std::max(0.0, *rows[r]->search) + floor));
    const auto row = static_cast<Eigen::Index>(r);
    const auto has = [&](size_t term) {
      a(row, static_cast<Eigen::Index>(term)) = std::max(*terms[term], 1e-15) * weight;
    };
    for (size_t g = 0; g < own_.size(); ++g)
      if (assignment[g] != 0) has(first[g] + static_cast<size_t>(assignment[g]) - 1);
    for (size_t t = 0; t < shared_.size(); ++t)
      if (is_lost(shared_[t], assignment)) has(first_shared + t);
    b[row] = (*rows[r]->search - loss_of(assignment)) * weight;
  }
  Eigen::MatrixXd normal = a.transpose() * a;
  normal.diagonal().array() += 1 / (tuning_.fit_prior * tuning_.fit_prior);
  const Eigen::VectorXd x = normal.ldlt().solve(a.transpose() * b);
  for (size_t t = 0; t < terms.size(); ++t) *terms[t] *= std::max(0.1, 1 + x[static_cast<Eigen::Index>(t)]);
}

}  // namespace seqto::internal
