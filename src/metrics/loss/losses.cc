#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/parallel.h"
#include "base/statistics.h"
#include "metrics/loss/compare_rows.h"
#include "metrics/loss/loss_fields.h"
#include "metrics/loss/softmax.h"
#include "metrics/loss/top_classes.h"
#include "seqto/error.h"
#include "seqto/metrics.h"

namespace seqto {

std::vector<double> softmax(std::span<const float> row) {
  const double largest = *std::ranges::max_element(row);
  std::vector<double> shares(row.size());
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) sum += shares[i] = std::exp(row[i] - largest);
  for (double& share : shares) share /= sum;
  return shares;
}

bool are_shares(std::span<const float> row) {
  double sum = 0;
  for (float share : row) sum += share;
  return row.size() > 1 && std::ranges::all_of(row, [](float share) { return share >= 0; }) && std::abs(sum - 1) < 1e-3;
}

namespace {

constexpr double kTiny = 1e-12;  // the published one: keeps a share of 0 finite

double divergence(std::span<const double> p, std::span<const double> q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += p[i] * (std::log(p[i] + kTiny) - std::log(q[i] + kTiny));
  return sum;
}

double square_of_difference(float a, float b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;  // two masks alike, of infinities or NaN
  const double difference = static_cast<double>(a) - b;
  return difference * difference;
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

// NaN and nothing else: no mask, but what a fault leaves.
bool is_blank(std::span<const float> values) {
  return has_nan(values) && std::ranges::none_of(values, [](float value) { return std::isfinite(value); });
}

// compare(a, b) without the places where both have the same infinity or NaN.
auto without_masks(std::span<const float> a, std::span<const float> b, const auto& compare) {
  if (all_finite(a)) return compare(a, b);
  const auto masked = [&](size_t i) { return !std::isfinite(a[i]) && square_of_difference(a[i], b[i]) == 0; };
  std::vector<float> kept_a, kept_b;
  for (size_t i = 0; i < a.size(); ++i)
    if (!masked(i)) kept_a.push_back(a[i]), kept_b.push_back(b[i]);
  return compare(kept_a, kept_b);
}

double mean_square(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += square_of_difference(a[i], b[i]);
  return sum / static_cast<double>(a.size());
}

double cosine_distance(std::span<const float> a, std::span<const float> b) {
  if (std::ranges::equal(a, b)) return 0;  // whatever the rounding
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  if (aa == 0 && bb == 0) return 0;
  if (aa == 0 || bb == 0) return 1;
  const double distance = 1 - ab / (std::sqrt(aa) * std::sqrt(bb));
  return distance < 0 ? 0 : distance;
}

double rank_distance(std::span<const int64_t> reference, std::span<const int64_t> candidate) {
  // Equal lists are 0 by definition: scipy's rounding gives 1 - 2e-16 for four, and NaN for one.
  if (std::ranges::equal(reference, candidate)) return 0;
  // The published measure takes the class indices themselves as the data.
  const std::vector<double> x(reference.begin(), reference.end()), y(candidate.begin(), candidate.end());
  return (1 - weighted_tau(x, y)) / 2;
}

// Of an output of [samples, channels, inner] or, by the last axis, [samples, outer, channels].
struct Channels {
  size_t count = 1, inner = 1;
  bool has_columns = false;  // of an output of two axes, with as many values for each sample
  explicit Channels(const Outputs& outputs) {
    const std::vector<int64_t>& dims = outputs.dims;
    inner = static_cast<size_t>(std::max<int64_t>(1, outputs.columns));
    has_columns = dims.size() < 3 && outputs.ends.empty();
    if (dims.size() < 3 || outputs.columns == 0) return;
    if (!outputs.ends.empty()) {  // positions are none: there are more of them in one sample than in another
      count = static_cast<size_t>(dims.back()), inner = 1;
      return;
    }
    count = static_cast<size_t>(std::min(dims[1], dims.back()));
    inner = dims[1] <= dims.back() ? inner / static_cast<size_t>(dims[0] * dims[1]) : 1;
  }
  // Calls take(k, c) with each element k and its channel c.
  void for_each(size_t elements, const auto& take) const {
    for (size_t k = 0; k < elements;)
      for (size_t c = 0; c < count && k < elements; ++c)
        for (const size_t end = std::min(elements, k + inner); k < end; ++k) take(k, c);
  }
};

// Of each row by itself, on all cores.
void for_rows(const Outputs& outputs, const std::function<void(int64_t row)>& work) {
  constexpr size_t kLeast = size_t{1} << 16;  // values, below which a thread costs more than it saves
  const size_t values = std::max<size_t>(1, static_cast<size_t>(outputs.columns));
  in_parts(static_cast<size_t>(outputs.rows), (kLeast + values - 1) / values, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) work(static_cast<int64_t>(i));
  });
}

// How values vary.
class Moments {
 public:
  void add(double value) {
    if (!std::isfinite(value)) return;
    if (count_++ == 0) first_ = value;
    const double away = value - first_;  // numbers of Kelvins keep their digits so
    sum_ += away, squares_ += away * away, whole_ += value * value;
  }
  double whole() const { return whole_; }  // the sum of squares
  // The sum of squares away from the mean; a single value has no other to be away from.
  double varies() const {
    return count_ > 1 ? std::max(0.0, squares_ - sum_ * sum_ / static_cast<double>(count_)) : whole_;
  }

 private:
  double first_ = 0, sum_ = 0, squares_ = 0, whole_ = 0;
  int64_t count_ = 0;
};

// S of each channel, as metrics.h has it. Columns of samples may have other units: each is away from its own mean.
std::vector<double> signals(const Outputs& wanted, const Channels& channels) {
  constexpr double kLeast = 1e-7;  // of the squares: what never changes may be off by a three-thousandth
  const bool by_column = channels.has_columns && wanted.rows > 1;
  std::vector<Moments> moments(by_column ? static_cast<size_t>(wanted.columns) : channels.count);
  for (int64_t i = 0; i < wanted.rows; ++i) {
    const auto row = wanted.row(i);
    channels.for_each(row.size(), [&](size_t k, size_t c) { moments[by_column ? k : c].add(row[k]); });
  }
  std::vector<double> varies(channels.count), whole(channels.count);
  for (size_t m = 0; m < moments.size(); ++m) {
    const size_t c = by_column ? 0 : m;
    varies[c] += moments[m].varies(), whole[c] += moments[m].whole();
  }
  for (size_t c = 0; c < varies.size(); ++c)
    varies[c] = std::max(varies[c], kLeast * whole[c]) / static_cast<double>(wanted.rows);
  return varies;
}

// Of each sample. `found` null: the candidate has no such output.
std::vector<double> normalized_errors(const Outputs& wanted, const Outputs* found) {
  std::vector<double> errors(static_cast<size_t>(wanted.rows), 1);
  if (!found || wanted.rows != found->rows) return errors;
  const Channels channels(wanted);
  const std::vector<double> signal = signals(wanted, channels);
  for_rows(wanted, [&](int64_t i) {
    const auto a = wanted.row(i), b = found->row(i);
    if (a.size() != b.size()) return;
    std::vector<double> noise(channels.count);
    channels.for_each(a.size(), [&](size_t k, size_t c) { noise[c] += square_of_difference(a[k], b[k]); });
    double sum = 0;
    for (size_t c = 0; c < channels.count; ++c) {
      if (noise[c] == 0) continue;
      sum += std::isfinite(noise[c]) ? std::min(1.0, noise[c] / signal[c]) : std::numeric_limits<double>::infinity();
    }
    errors[static_cast<size_t>(i)] = sum / static_cast<double>(channels.count);
  });
  return errors;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of `errors`, by output in the order of the reference's.
std::optional<WorstOutput> worst_of(const std::vector<std::vector<double>>& errors, const Outputs& reference) {
  if (errors.size() < 2 || reference.rows == 0) return {};
  const auto worst = std::ranges::max_element(errors, {}, mean_of);
  const auto at = static_cast<size_t>(worst - errors.begin());
  const size_t place = at == 0 ? reference.place : reference.others[at - 1].place;
  return WorstOutput{.name = place < reference.names.size() ? reference.names[place] : "",
                     .nmse = mean_of(*worst),
                     .outputs = std::ssize(errors)};
}

// Adds the mean over the outputs to each sample's losses.
std::optional<WorstOutput> add_nmse(const Outputs& reference, const Outputs& candidate, std::vector<Losses>& losses) {
  std::vector<std::vector<double>> errors{normalized_errors(reference, &candidate)};
  const bool first_alone = candidate.dims.empty() && candidate.others.empty();
  for (const Outputs& wanted : reference.others) {
    if (first_alone) break;
    const auto found = std::ranges::find(candidate.others, wanted.place, &Outputs::place);
    errors.push_back(normalized_errors(wanted, found == candidate.others.end() ? nullptr : &*found));
  }
  for (size_t i = 0; i < losses.size(); ++i) {
    for (const std::vector<double>& of_output : errors) losses[i].nmse += of_output[i];
    losses[i].nmse /= static_cast<double>(errors.size());
  }
  return worst_of(errors, reference);
}

double or_infinity(double loss) { return std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss; }

// A row with NaN has no order of classes: it differs in everything.
Losses compare_classes(std::span<const float> reference, std::span<const float> candidate) {
  if (std::ranges::equal(reference, candidate)) return {};
  const std::vector<double> p = softmax(reference), q = softmax(candidate);
  Losses losses{.kl = or_infinity(divergence(p, q)),
                .top1_disagreement = 1,
                .top5_disagreement = 1,
                .rank_dissimilarity = 1,
                .probability_change = 1};
  if (has_nan(reference) || has_nan(candidate)) return losses;
  const TopClasses a = top_classes(reference), b = top_classes(candidate);
  losses.top1_disagreement = a.classes[0] != b.classes[0];
  losses.rank_dissimilarity =
      rank_distance(top_classes(reference, Ties::kLast).list(), top_classes(candidate, Ties::kLast).list());
  losses.top5_disagreement = !std::ranges::is_permutation(a.list(), b.list());
  const auto first = static_cast<size_t>(a.classes[0]);
  const double change = std::abs(p[first] - q[first]);
  if (!std::isnan(change)) losses.probability_change = change;  // of infinite scores nobody knows the shares
  return losses;
}

// Of labels each is right or wrong.
Losses compare_labels(std::span<const float> reference, std::span<const float> candidate) {
  const double differs = std::ranges::equal(reference, candidate) ? 0 : 1;
  return {.kl = differs,
          .top1_disagreement = differs,
          .top5_disagreement = differs,
          .rank_dissimilarity = differs,
          .probability_change = differs};
}

// Of a sample that was answered in another length: the most that each loss can be, and mse as if all were 0.
Losses lost(std::span<const float> reference, bool labels) {
  const std::vector<float> nothing(reference.size());
  return {.kl = labels ? 1 : -std::log(kTiny),
          .top1_disagreement = 1,
          .top5_disagreement = 1,
          .rank_dissimilarity = 1,
          .mse = reference.empty() ? 0 : or_infinity(mean_square(reference, nothing)),
          .cosine = 1,
          .probability_change = 1};
}

// Of a sample; `rows`: of each of its rows of class scores.
Losses compare_sample(std::span<const float> reference, std::span<const float> candidate,
                      std::span<const Losses> rows) {
  if (std::ranges::equal(reference, candidate)) return {};
  Losses losses = mean(rows);
  losses.mse = or_infinity(mean_square(reference, candidate));
  losses.cosine = or_infinity(is_blank(reference) ? cosine_distance(reference, candidate)
                                                  : without_masks(reference, candidate, cosine_distance));
  return losses;
}

// The KL of rows, position by position.
class Rows {
 public:
  explicit Rows(size_t longest) : width_((longest + kGroups - 1) / kGroups) {}

  void add(std::span<const double> sample) {
    for (size_t position = 0; position < sample.size(); ++position) {
      const size_t group = position / width_;
      if (group == sums_.size()) sums_.push_back(0), counts_.push_back(0);
      all_.push_back(sample[position]);
      sums_[group] += all_.back(), ++counts_[group];
    }
  }

  RowLosses result() const {
    RowLosses result{.q99 = quantile(all_, 0.99),
                     .q999 = quantile(all_, 0.999),
                     .largest = *std::ranges::max_element(all_),
                     .width = static_cast<int64_t>(width_)};
    for (size_t group = 0; group < sums_.size(); ++group) result.by_position.push_back(sums_[group] / counts_[group]);
    return result;
  }

 private:
  static constexpr size_t kGroups = 8;  // that a page has room for
  size_t width_;
  std::vector<double> all_, sums_, counts_;
};

}  // namespace

namespace internal {

ComparedRows compare_rows(const Outputs& reference, const Outputs& candidate) {
  if (reference.rows != candidate.rows)
    throw Error(Code::kInvalidInput,
                fmt::format("[compare] outputs of {} samples found; {} expected, as the reference has; run both models "
                            "on the same samples",
                            candidate.rows, reference.rows));
  ComparedRows compared;
  compared.samples.resize(static_cast<size_t>(reference.rows));
  if (reference.columns == 0 && candidate.columns == 0) return compared;
  const auto classes = static_cast<size_t>(std::max<int64_t>(1, reference.classes())),
             longest = static_cast<size_t>(reference.columns);
  std::vector<std::vector<double>> kl(compared.samples.size());
  for_rows(reference, [&](int64_t i) {
    const auto a = reference.row(i), b = candidate.row(i);
    const auto sample = static_cast<size_t>(i);
    if (a.size() != b.size()) {
      compared.samples[sample] = lost(a, reference.labels);
      kl[sample].assign((a.size() + classes - 1) / classes, compared.samples[sample].kl);
      return;
    }
    std::vector<Losses> rows;
    const auto compared_row = reference.labels ? compare_labels : compare_classes;
    const bool blank = is_blank(a);
    for (auto left = a, other = b; !left.empty();) {
      const auto wanted = take_scores(left, classes), found = take_scores(other, classes);
      rows.push_back(blank ? compared_row(wanted, found) : without_masks(wanted, found, compared_row));
      kl[sample].push_back(rows.back().kl);
    }
    compared.samples[sample] = compare_sample(a, b, rows);
  });
  if (classes < longest && reference.rows > 0) {
    Rows by_position(longest / classes);
    for (const std::vector<double>& sample : kl) by_position.add(sample);
    compared.rows = by_position.result();
  }
  compared.worst_output = add_nmse(reference, candidate, compared.samples);
  return compared;
}

}  // namespace internal

std::vector<Losses> compare_each(const Outputs& reference, const Outputs& candidate) {
  return internal::compare_rows(reference, candidate).samples;
}

Losses mean(std::span<const Losses> losses) {
  Losses mean;
  for (const Losses& row : losses)
    for (const LossField& field : kLossFields) mean.*field.value += row.*field.value;
  if (!losses.empty())
    for (const LossField& field : kLossFields) mean.*field.value /= static_cast<double>(losses.size());
  return mean;
}

Losses compare(const Outputs& reference, const Outputs& candidate) { return mean(compare_each(reference, candidate)); }

std::optional<double> pooled_kl(const Outputs& reference, const Outputs& candidate) {
  constexpr int64_t kMost = int64_t{1} << 28;  // products, a tenth of a second
  constexpr double kLoudest = 0.2;
  if (candidate.rows == 0 || candidate.values.size() > reference.values.size()) return {};
  if (reference.columns == 0 || reference.labels || candidate.classes() != reference.classes()) return {};
  if (reference.dims.size() < 3 && !(reference.ends.empty() && candidate.ends.empty()))
    return {};  // rows of several widths
  for (int64_t i = 0; i < candidate.rows; ++i)
    if (candidate.row(i).size() != reference.row(i).size()) return {};
  const int64_t classes = reference.classes();
  const int64_t wanted = std::ssize(reference.values) / classes, found = std::ssize(candidate.values) / classes;
  if (wanted == 0 || found == 0) return {};
  if (wanted > kMost / found || wanted * found > kMost / classes) return {};
  const auto row = [&](const Outputs& outputs, int64_t i) {
    return std::span(outputs.values).subspan(static_cast<size_t>(i * classes), static_cast<size_t>(classes));
  };
  std::vector<std::vector<double>> shares;
  for (int64_t i = 0; i < wanted; ++i) shares.push_back(softmax(row(reference, i)));
  std::vector<double> costs;  // of each noise
  for (int64_t j = 0; j < found; ++j) {
    std::vector<double> noise(static_cast<size_t>(classes));
    double middle = 0;
    for (size_t c = 0; c < noise.size(); ++c) {
      noise[c] = static_cast<double>(row(candidate, j)[c]) - row(reference, j)[c];
      middle += noise[c] / static_cast<double>(classes);
    }
    double sum = 0;
    for (const std::vector<double>& p : shares) {
      double first = 0, second = 0;
      for (size_t c = 0; c < noise.size(); ++c) {
        const double d = noise[c] - middle;
        first += p[c] * d;
        second += p[c] * d * d;
      }
      sum += (second - first * first) / 2;
    }
    if (!std::isfinite(sum)) return {};
    costs.push_back(std::max(0.0, sum / static_cast<double>(wanted)));
  }
  std::ranges::sort(costs);
  const auto kept = std::max<size_t>(1, static_cast<size_t>((1 - kLoudest) * static_cast<double>(costs.size())));
  double sum = 0;
  for (size_t i = 0; i < costs.size(); ++i) sum += costs[std::min(i, kept - 1)];
  return sum / static_cast<double>(costs.size());
}

double steady_loss(const Measurement& measurement, const std::string& loss, double found) {
  if (loss != "kl" || !measurement.pooled_kl || !(found > 0)) return found;
  return std::sqrt(found * *measurement.pooled_kl);
}

Outputs Outputs::without_rows() const {
  return {.place = place,
          .pooling = pooling,
          .maker = maker,
          .classes_second = classes_second,
          .labels = labels,
          .names = names};
}

std::span<const float> Outputs::row(int64_t i) const {
  const auto index = static_cast<size_t>(i);
  if (ends.empty())
    return std::span(values).subspan(index * static_cast<size_t>(columns), static_cast<size_t>(columns));
  const size_t begin = index == 0 ? 0 : ends[index - 1];
  return std::span(values).subspan(begin, ends[index] - begin);
}

int64_t Outputs::classes() const {
  if (labels) return 1;
  if (!ends.empty()) return dims.size() < 3 ? columns : dims.back();
  const auto wide = std::ranges::count_if(dims, [](int64_t size) { return size > 1; });
  return wide > 1 && columns % dims.back() == 0 ? dims.back() : columns;
}

void Outputs::append(std::span<const float> row) {
  const bool even = rows == 0 || (ends.empty() && std::ssize(row) == columns);
  // [1, positions] is one set of scores, as of where an answer begins in a text.
  const bool may_differ = dims.size() == 2   ? dims[0] == 1 && !row.empty()
                          : dims.size() >= 3 ? dims.back() >= 1 && std::ssize(row) % dims.back() == 0
                                             : false;
  if (!even && !labels && !may_differ) {
    throw Error(Code::kInvalidInput,
                fmt::format("[run] an output of {} values found; {} expected, as for the samples before it; use inputs "
                            "of one shape",
                            row.size(), columns));
  }
  append_of_any_length(row);
}

void Outputs::append_of_any_length(std::span<const float> row) {
  const bool even = rows == 0 || (ends.empty() && std::ssize(row) == columns);
  if (!even && ends.empty())
    for (int64_t i = 1; i <= rows; ++i) ends.push_back(static_cast<size_t>(i * columns));
  columns = std::max(columns, std::ssize(row));
  values.insert(values.end(), row.begin(), row.end());
  if (!even) ends.push_back(values.size());
  ++rows;
}

}  // namespace seqto
