#include "quantization/improve/round_weights.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "base/parallel.h"

namespace seqto::internal {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::MatrixXf;
using Eigen::VectorXd;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kSweeps = 4;
// Of an input's mean square: variance that it is taken to have at least.
constexpr double kLeastSpread = 1e-3;
// Up to so many weights of one output every combination of up and down is tried.
constexpr Index kExhaustive = 9;

// Means of products; with a bias, of the deviations from the mean, which is what the bias cannot take up.
struct Covariance {
  MatrixXd xx, yx;
  VectorXd yy;
};
Covariance covariance(const Moments& m, bool centred) {
  double rows = std::max(m.rows, 1.0);
  Covariance c{m.xx / rows, m.yx / rows, m.yy / rows};
  if (!centred) return c;
  VectorXd x = m.x / rows, y = m.y / rows;
  c.xx.noalias() -= x * x.transpose();
  c.yx.noalias() -= y * x.transpose();
  c.yy -= y.cwiseProduct(y);
  return c;
}

double mean_square(const MatrixXd& xx) { return std::max(xx.diagonal().mean(), 1e-30); }

MatrixXd damped(const MatrixXd& xx, double ridge) {
  MatrixXd result = xx;
  result.diagonal().array() += ridge * mean_square(xx);
  return result;
}

// What the error is around the given weights. There it nearly vanishes, so that its change is small numbers' business
// and single precision is enough.
struct Problem {
  const MatrixXd& weight;
  MatrixXd xx, slope;  // slope: weight * xx - yx
  MatrixXf xx_single;
  VectorXd error;  // of each output with these weights

  Problem(const MatrixXd& given, const Moments& moments, bool with_bias) : weight(given) {
    Covariance c = covariance(moments, with_bias);
    xx = std::move(c.xx);
    MatrixXd product = weight * xx;
    slope = product - c.yx;
    error = c.yy + (product - 2 * c.yx).cwiseProduct(weight).rowwise().sum();
    // An input that hardly differs on these samples may differ on others: its weight is not free.
    if (with_bias) {
      const VectorXd square = moments.xx.diagonal() / std::max(moments.rows, 1.0);
      xx.diagonal() = xx.diagonal().cwiseMax(kLeastSpread * square);
    }
    xx_single = xx.cast<float>();
  }

  // Each output's mean squared error with other weights.
  VectorXd errors_of(const MatrixXd& other) const {
    MatrixXd step = other - weight;
    MatrixXf bent = step.cast<float>() * xx_single;
    return error + (2 * slope + bent.cast<double>()).cwiseProduct(step).rowwise().sum();
  }

  // The weights that bring the quantized layer's inputs nearest to the targets, drawn towards the given ones.
  MatrixXd fitted(double ridge) const {
    if (!std::isfinite(ridge)) return weight;
    Eigen::LLT<MatrixXf> factor(damped(xx, ridge).cast<float>());
    MatrixXf left = -slope.transpose().cast<float>();
    return weight + factor.solve(left).transpose().cast<double>();
  }
};

// Nearest to a number of steps of output o, input i.
double code(double value, const Steps& steps, Index o, Index i) {
  if (steps.scale(o, i) == 0) return 0;
  return std::clamp(std::nearbyint(value), steps.lowest(o, i), steps.highest(o, i));
}

MatrixXd nearest_codes(const MatrixXd& weight, const Steps& steps) {
  return MatrixXd::NullaryExpr(weight.rows(), weight.cols(), [&](Index o, Index i) {
    return code(1 / steps.scale(o, i) * weight(o, i), steps, o, i);
  });
}

// Rounds one input after the other, the ones with the largest values first; each takes up the error of those before
// it, as far as it is correlated with them. With xx = R R', R upper triangular, that error is a product with R's
// column.
MatrixXd successive_codes(const MatrixXd& weight, const MatrixXd& xx, const Steps& steps) {
  Index n = weight.cols(), outputs = weight.rows();
  std::vector<Index> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  // Reversed: the factor comes out lower triangular, and is read from its end.
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return xx(a, a) < xx(b, b); });
  MatrixXf sorted(n, n);
  for (Index j = 0; j < n; ++j)
    for (Index i = 0; i < n; ++i)
      sorted(i, j) = static_cast<float>(xx(order[static_cast<size_t>(i)], order[static_cast<size_t>(j)]));
  MatrixXf factor = Eigen::LLT<MatrixXf>(sorted).matrixL();
  constexpr Index kBlock = 32;
  MatrixXf left = MatrixXf::Zero(outputs, n);  // real error of the weights done
  MatrixXd codes(outputs, n);
  for (Index end = n; end > 0; end -= std::min(end, kBlock)) {
    Index first = std::max<Index>(0, end - kBlock);
    MatrixXf carried = left.rightCols(n - end) * factor.bottomRows(n - end).middleCols(first, end - first);
    for (Index i = end - 1; i >= first; --i) {
      Eigen::VectorXf sum =
          carried.col(i - first) + left.middleCols(i + 1, end - i - 1) * factor.col(i).segment(i + 1, end - i - 1);
      Index source = order[static_cast<size_t>(i)];
      for (Index o = 0; o < outputs; ++o) {
        double value = weight(o, source) + double(sum(o)) / double(factor(i, i));
        double q = code(value / steps.scale(o, source), steps, o, source);
        codes(o, source) = q;
        left(o, i) = static_cast<float>(weight(o, source) - q * steps.scale(o, source));
      }
    }
  }
  return codes;
}

// Moves single codes by whole steps while that lowers an output's error. An output's rows are copied: in the matrices
// their values lie apart.
void descend(const MatrixXd& weight, const MatrixXd& xx, const Steps& steps, MatrixXd& codes) {
  const MatrixXf left = (weight - steps.real(codes)).cast<float>();
  const MatrixXf gradients = left * xx.cast<float>();
  for (Index o = 0; o < codes.rows(); ++o) {
    VectorXd gradient = gradients.row(o).cast<double>(), found = codes.row(o);
    const VectorXd scale = steps.scale.row(o), lowest = steps.lowest.row(o), highest = steps.highest.row(o);
    bool moved = true;
    for (int sweep = 0; sweep < kSweeps && moved; ++sweep) {
      moved = false;
      for (Index i = 0; i < found.size(); ++i) {
        if (!(xx(i, i) > 0) || scale(i) == 0) continue;
        const double wanted = std::nearbyint(found(i) + gradient(i) / (xx(i, i) * scale(i)));
        const double step = std::clamp(wanted, lowest(i), highest(i)) - found(i);
        if (step == 0) continue;
        found(i) += step;
        gradient -= step * scale(i) * xx.col(i);
        moved = true;
      }
    }
    codes.row(o) = found;
  }
}

// The best of all combinations of down and up, in Gray code: each differs from the one before in one weight.
Eigen::RowVectorXd best_combination(const Eigen::RowVectorXd& weight, const MatrixXd& xx, const Steps& steps, Index o) {
  Index n = weight.size();
  const Eigen::RowVectorXd scale = steps.scale.row(o);
  Eigen::RowVectorXd codes(n), best, step = Eigen::RowVectorXd::Zero(n);
  for (Index i = 0; i < n; ++i) {
    if (scale(i) == 0) {
      codes(i) = 0;
      continue;
    }
    codes(i) = std::clamp(std::floor(weight(i) / scale(i)), steps.lowest(o, i), steps.highest(o, i) - 1);
    step(i) = 1;
  }
  best = codes;
  Eigen::RowVectorXd gradient = (weight - scale.cwiseProduct(codes)) * xx;
  double change = 0, lowest = 0;
  for (uint32_t k = 1; k < (1u << n); ++k) {
    Index i = std::countr_zero(k);
    double d = step(i) * scale(i);
    change += d * (d * xx(i, i) - 2 * gradient(i));
    gradient -= d * xx.row(i);
    codes(i) += step(i);
    step(i) = -step(i);
    if (change < lowest) lowest = change, best = codes;
  }
  return best;
}

MatrixXd learned_codes(const MatrixXd& weight, const MatrixXd& xx, const Steps& steps) {
  if (weight.cols() > kExhaustive) return successive_codes(weight, xx, steps);
  MatrixXd codes(weight.rows(), weight.cols());
  for (Index o = 0; o < weight.rows(); ++o) codes.row(o) = best_combination(weight.row(o), xx, steps, o);
  return codes;
}

MatrixXd codes_of(const Problem& problem, const Steps& steps, Trust trust) {
  MatrixXd target = problem.fitted(trust.ridge);
  if (!std::isfinite(trust.damping)) return nearest_codes(target, steps);
  MatrixXd xx = damped(problem.xx, trust.damping), codes = learned_codes(target, xx, steps);
  descend(target, xx, steps, codes);
  return codes;
}

// errors[i] += what `weights` learns on each half with candidate i, judged by the other.
template <class Weights>
void add_judged(const Halves& h, std::vector<double>& errors, const Weights& weights) {
  const Problem halves[]{{h.weight, h.even, h.with_bias}, {h.weight, h.odd, h.with_bias}};
  std::vector<double> found(2 * errors.size());
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for_each_in_order(
      found.size(), cores,
      [&](size_t k) { found[k] = halves[1 - k % 2].errors_of(weights(halves[k % 2], k / 2)).sum(); }, [](size_t) {});
  for (size_t k = 0; k < found.size(); ++k) errors[k / 2] += found[k];
}

}  // namespace

Steps Steps::by_output(const VectorXd& scale, Index inputs, int32_t lowest, int32_t highest) {
  const Index outputs = scale.size();
  return {scale.replicate(1, inputs), MatrixXd::Constant(outputs, inputs, lowest),
          MatrixXd::Constant(outputs, inputs, highest)};
}

Moments::Moments(Index inputs, Index outputs)
    : xx(MatrixXd::Zero(inputs, inputs)),
      yx(MatrixXd::Zero(outputs, inputs)),
      x(VectorXd::Zero(inputs)),
      y(VectorXd::Zero(outputs)),
      yy(VectorXd::Zero(outputs)) {}

void Moments::add(const MatrixXf& inputs, const MatrixXf& outputs) {
  MatrixXf square = MatrixXf::Zero(inputs.rows(), inputs.rows());
  square.selfadjointView<Eigen::Lower>().rankUpdate(inputs);
  square.triangularView<Eigen::StrictlyUpper>() = square.transpose();
  xx += square.cast<double>();
  yx += MatrixXf(outputs * inputs.transpose()).cast<double>();
  x += inputs.cast<double>().rowwise().sum();
  y += outputs.cast<double>().rowwise().sum();
  yy += outputs.cast<double>().rowwise().squaredNorm();
  rows += static_cast<double>(inputs.cols());
}

Moments& Moments::operator+=(const Moments& other) {
  xx += other.xx, yx += other.yx;
  x += other.x, y += other.y, yy += other.yy;
  rows += other.rows;
  return *this;
}

const std::vector<double>& ridge_candidates() {
  static const std::vector<double> candidates{kInfinity, 1.0, 0.1, 0.01};
  return candidates;
}

void add_held_out_errors(const Halves& halves, std::vector<double>& errors) {
  add_judged(halves, errors, [](const Problem& half, size_t i) { return half.fitted(ridge_candidates()[i]); });
}

std::vector<Trust> trust_candidates(double ridge) {
  // Never 0: inputs that are always zero, fewer rows than inputs.
  return {{kInfinity, kInfinity}, {ridge, 1.0}, {ridge, 0.1}, {ridge, 0.01}};
}

void add_held_out_errors(const Halves& halves, const Steps& steps, std::span<const Trust> candidates,
                         std::vector<double>& errors) {
  add_judged(halves, errors, [&](const Problem& half, size_t i) -> MatrixXd {
    return steps.real(codes_of(half, steps, candidates[i]));
  });
}

Rounded round_weights(const MatrixXd& weight, const Moments& moments, const Steps& steps, Trust trust, bool with_bias) {
  const Problem problem(weight, moments, with_bias);
  Rounded result{codes_of(problem, steps, trust), {}, 0, 0};
  // What the damping or the ridge made worse than plain rounding on these very samples is taken back.
  MatrixXd nearest = nearest_codes(weight, steps);
  VectorXd before = problem.errors_of(steps.real(nearest)), after = problem.errors_of(steps.real(result.codes));
  for (Index o = 0; o < weight.rows(); ++o)
    if (!(after(o) <= before(o))) result.codes.row(o) = nearest.row(o), after(o) = before(o);
  result.error_nearest = before.sum(), result.error_learned = after.sum();
  if (with_bias) result.bias = (moments.y - steps.real(result.codes) * moments.x) / std::max(moments.rows, 1.0);
  return result;
}

}  // namespace seqto::internal
