// Vigna's weighted tau, "A weighted correlation index for rankings with ties", WWW 2015.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "seqto/metrics.h"

namespace seqto {
namespace {

bool less(double a, double b) { return std::isnan(a) ? !std::isnan(b) : a < b; }

// Of the pairs of equal or opposite order: how much they weigh. A pair weighs 1/(1+rank) of both its
// elements, where rank 0 is the largest by (x, y).
double one_way_tau(std::span<const double> x, std::span<const double> y) {
  const size_t n = x.size();
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    if (less(x[a], x[b]) || less(x[b], x[a])) return less(x[a], x[b]);
    return less(y[a], y[b]);
  });
  std::vector<double> weight(n);
  for (size_t i = 0; i < n; ++i) weight[order[i]] = 1.0 / static_cast<double>(n - i);
  // Summed upwards in y, as scipy does: lists of five that agree then give 1 exactly.
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return less(y[a], y[b]); });
  double sum = 0;
  for (size_t i : order) sum += weight[i];
  const double total = sum * static_cast<double>(n - 1);

  double tied_in_x = 0, tied_in_y = 0, tied_in_both = 0, exchanged = 0;
  bool x_varies = false, y_varies = false;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) {
      const int dx = less(x[j], x[i]) - less(x[i], x[j]), dy = less(y[j], y[i]) - less(y[i], y[j]);
      const double pair = weight[i] + weight[j];
      if (dx == 0) tied_in_x += pair;
      if (dy == 0) tied_in_y += pair;
      if (dx == 0 && dy == 0) tied_in_both += pair;
      if (dx * dy < 0) exchanged += pair;
      x_varies |= dx != 0;
      y_varies |= dy != 0;
    }
  }
  if (!x_varies || !y_varies) return std::numeric_limits<double>::quiet_NaN();
  const double tau = (total - (tied_in_y + tied_in_x - tied_in_both) - 2 * exchanged) / std::sqrt(total - tied_in_x) /
                     std::sqrt(total - tied_in_y);
  return std::clamp(tau, -1.0, 1.0);
}

}  // namespace

double weighted_tau(std::span<const double> x, std::span<const double> y) {
  assert(x.size() == y.size());
  return (one_way_tau(x, y) + one_way_tau(y, x)) / 2;
}

}  // namespace seqto
