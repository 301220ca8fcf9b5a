#include "quantization/improve/round_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "quantization/calibration/layer_rows.h"

namespace seqto {
namespace {

using namespace internal;
using Eigen::MatrixXd;
using Eigen::MatrixXf;

constexpr Trust kNoFit{std::numeric_limits<double>::infinity(), 0.01};

// Inputs that are correlated, as the channels of a feature map are.
MatrixXf correlated(int inputs, int rows, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  MatrixXf mix = MatrixXf::NullaryExpr(inputs, inputs, [&] { return normal(random); });
  MatrixXf free = MatrixXf::NullaryExpr(inputs, rows, [&] { return normal(random); });
  return (mix * free).array() + 1.0f;
}

Steps equal_steps(int outputs, int inputs, double scale, int32_t lowest, int32_t highest) {
  return Steps::by_output(Eigen::VectorXd::Constant(outputs, scale), inputs, lowest, highest);
}

double output_error(const MatrixXd& weight, const MatrixXf& x, const MatrixXf& y) {
  MatrixXd left = y.cast<double>() - weight * x.cast<double>();
  left.colwise() -= left.rowwise().mean();
  return left.squaredNorm() / static_cast<double>(x.cols());
}

TEST(RoundWeights, FourWeightsAsByBruteForce) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    MatrixXf x = correlated(4, 64, seed);
    MatrixXd weight = correlated(4, 1, seed + 100).transpose().cast<double>();
    MatrixXf y = weight.cast<float>() * x;
    Moments moments(4, 1);
    moments.add(x, y);
    Steps steps = equal_steps(1, 4, 0.25, -128, 127);
    Rounded found = round_weights(weight, moments, steps, kNoFit, true);
    double best = std::numeric_limits<double>::infinity();
    for (int k = 0; k < 16; ++k) {
      MatrixXd codes(1, 4);
      for (int i = 0; i < 4; ++i) codes(0, i) = std::floor(weight(0, i) / 0.25) + ((k >> i) & 1);
      best = std::min(best, output_error(codes * 0.25, x, y));
    }
    // Whole steps beyond up and down may do better still. Damping costs up to the 5 %; moments are products in float.
    EXPECT_LE(output_error(found.codes * 0.25, x, y), best * 1.05 + 1e-9) << seed;
    EXPECT_NEAR(output_error(found.codes * 0.25, x, y), found.error_learned, 1e-2 * best) << seed;
  }
}

TEST(RoundWeights, NeverWorseThanNearestAndMostlyMuchBetter) {
  double before = 0, after = 0;
  for (unsigned seed = 0; seed < 5; ++seed) {
    MatrixXf x = correlated(40, 300, seed);
    MatrixXd weight = correlated(6, 40, seed + 50).cast<double>();
    Moments moments(40, 6);
    moments.add(x, weight.cast<float>() * x);
    Steps steps = equal_steps(6, 40, 0.5, -128, 127);
    Rounded found = round_weights(weight, moments, steps, kNoFit, seed % 2 == 0);
    EXPECT_LE(found.error_learned, found.error_nearest);
    EXPECT_EQ(found.bias.size(), seed % 2 == 0 ? 6 : 0);
    before += found.error_nearest, after += found.error_learned;
  }
  EXPECT_LT(after, 0.5 * before);
}

TEST(RoundWeights, EveryBlockHasItsOwnSteps) {
  MatrixXf x = correlated(12, 200, 3);
  MatrixXd weight = correlated(5, 12, 9).cast<double>();
  weight.leftCols(4) *= 0.01;
  weight.row(2).rightCols(4).setZero();
  Moments moments(12, 5);
  moments.add(x, weight.cast<float>() * x);
  // Negative, as the largest value of a symmetric block makes them, and 0 where a block is all zeros.
  Steps steps = equal_steps(5, 12, -0.8, -8, 7);
  steps.scale.leftCols(4).setConstant(0.008);
  steps.scale.row(2).rightCols(4).setZero();
  steps.highest.row(1).setConstant(6);
  Rounded found = round_weights(weight, moments, steps, kNoFit, true);
  EXPECT_LT(found.error_learned, 0.7 * found.error_nearest);
  EXPECT_TRUE((found.codes.array() >= steps.lowest.array()).all() &&
              (found.codes.array() <= steps.highest.array()).all());
  EXPECT_TRUE(found.codes.row(2).rightCols(4).isZero());
  EXPECT_NEAR(output_error(steps.real(found.codes), x, weight.cast<float>() * x), found.error_learned,
              1e-3 * found.error_nearest);
}

TEST(RoundWeights, CodesStayInsideTheirType) {
  MatrixXf x = correlated(3, 20, 1);
  MatrixXd weight = MatrixXd::Constant(1, 3, 100.0);
  Moments moments(3, 1);
  moments.add(x, weight.cast<float>() * x);
  Rounded found = round_weights(weight, moments, equal_steps(1, 3, 1.0, -8, 7), kNoFit, true);
  EXPECT_EQ(found.codes, MatrixXd::Constant(1, 3, 7.0));
}

TEST(RoundWeights, InputsThatAreAlwaysZeroAreRoundedToNearest) {
  MatrixXf x = MatrixXf::Zero(12, 8);
  Moments moments(12, 1);
  moments.add(x, MatrixXf::Zero(1, 8));
  MatrixXd weight = MatrixXd::Constant(1, 12, 0.6);
  Rounded found = round_weights(weight, moments, equal_steps(1, 12, 1.0, -8, 7), kNoFit, false);
  EXPECT_EQ(found.codes, MatrixXd::Ones(1, 12));
}

TEST(RoundWeights, InputsThatHardlyDifferAreNoFreeChoice) {
  for (const float spread : {0.0f, 1e-6f, 1e-3f}) {
    const MatrixXf base = correlated(12, 1, 2);
    const MatrixXf x = base.replicate(1, 64) + spread * correlated(12, 64, 4);
    const MatrixXd weight = correlated(6, 12, 9).cast<double>();
    Moments moments(12, 6);
    moments.add(x, weight.cast<float>() * x);
    const Steps steps = equal_steps(6, 12, 0.5, -128, 127);
    const Rounded found = round_weights(weight, moments, steps, kNoFit, true);
    EXPECT_LT((found.codes * 0.5 - weight).cwiseAbs().maxCoeff(), 0.3) << spread;
  }
}

TEST(HeldOutErrors, FitWhereTheInputsAreSystematicallyWrong) {
  // The inputs arrive 20 % too small: refitting helps on the other half; with nothing wrong it cannot.
  MatrixXd weight = correlated(2, 8, 3).cast<double>();
  std::vector<double> wrong(ridge_candidates().size()), right = wrong;
  Moments even(8, 2), odd(8, 2), even_right(8, 2), odd_right(8, 2);
  MatrixXf a = correlated(8, 200, 7), b = correlated(8, 200, 7 + 1);
  even.add(a * 0.8f, weight.cast<float>() * a), odd.add(b * 0.8f, weight.cast<float>() * b);
  even_right.add(a, weight.cast<float>() * a), odd_right.add(b, weight.cast<float>() * b);
  add_held_out_errors({weight, even, odd, true}, wrong);
  add_held_out_errors({weight, even_right, odd_right, true}, right);
  EXPECT_LT(*std::min_element(wrong.begin() + 1, wrong.end()), 0.5 * wrong[0]);
  EXPECT_LT(right[0], 1e-3 * wrong[0]);
}

TEST(HeldOutErrors, FewRowsOfManyInputsAreTrustedLess) {
  auto best_damping = [](int rows) {
    MatrixXd weight = correlated(64, 4, 3).transpose().cast<double>();
    MatrixXf x = correlated(64, 2 * rows, 7);
    Moments even(64, 4), odd(64, 4);
    even.add(x.leftCols(rows), weight.cast<float>() * x.leftCols(rows));
    odd.add(x.rightCols(rows), weight.cast<float>() * x.rightCols(rows));
    auto candidates = trust_candidates(kNoFit.ridge);
    std::vector<double> errors(candidates.size());
    Steps steps = equal_steps(4, 64, 0.5, -128, 127);
    add_held_out_errors({weight, even, odd, true}, steps, candidates, errors);
    return candidates[static_cast<size_t>(std::min_element(errors.begin(), errors.end()) - errors.begin())].damping;
  };
  EXPECT_EQ(best_damping(4000), 0.01);
  EXPECT_GT(best_damping(8), 0.01);
}

TEST(LayerRows, PatchesOfAConvolution) {
  Node node{"c", "Conv", "", {"x", "w"}, {"y"}, {}, {}};
  node.set_attribute({"pads", std::vector<int64_t>{1, 0, 0, 0}});
  node.set_attribute({"strides", std::vector<int64_t>{1, 2}});
  Tensor x = float_tensor({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  Tensor y = float_tensor({1, 1, 2, 2}, {10, 20, 30, 40});
  LayerRows rows = layer_rows(node, {1, 1, 2, 2}, x, y, {100, 0});
  MatrixXf inputs{{0, 0, 1, 3}, {0, 0, 2, 4}, {1, 3, 5, 7}, {2, 4, 6, 8}};
  EXPECT_EQ(rows.inputs, inputs);
  EXPECT_EQ(rows.outputs, (MatrixXf{{10, 20, 30, 40}}));
  EXPECT_EQ(layer_rows(node, {1, 1, 2, 2}, x, y, {2, 1}).outputs, (MatrixXf{{10, 30}}));
}

}  // namespace
}  // namespace seqto
