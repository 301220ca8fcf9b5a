// Room: quantization/improve. Codes of a weight matrix from the second moments of what goes in and what shall come out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <Eigen/Core>

namespace seqto::internal {

// Sums over rows of inputs x (size `inputs`) and targets y (size `outputs`).
struct Moments {
  Eigen::MatrixXd xx, yx;  // inputs x inputs, outputs x inputs
  Eigen::VectorXd x, y, yy;
  double rows = 0;

  Moments() = default;
  Moments(Eigen::Index inputs, Eigen::Index outputs);
  // One column a row of data.
  void add(const Eigen::MatrixXf& inputs, const Eigen::MatrixXf& outputs);
  Moments& operator+=(const Moments& other);
};

// Moments are of so many positions of a sample at least, for the means.
inline constexpr int64_t kPositions = 256;

// The weight, outputs x inputs: real value = code * scale; zero points are taken off. A scale may be negative; where it
// is 0 the code stays 0.
struct Steps {
  Eigen::MatrixXd scale, lowest, highest;

  // The same for all weights of an output.
  static Steps by_output(const Eigen::VectorXd& scale, Eigen::Index inputs, int32_t lowest, int32_t highest);
  Eigen::MatrixXd real(const Eigen::MatrixXd& codes) const { return scale.cwiseProduct(codes); }
};

struct Rounded {
  Eigen::MatrixXd codes;                        // outputs x inputs
  Eigen::VectorXd bias;                         // empty without one
  double error_nearest = 0, error_learned = 0;  // sums over the outputs of the mean squared error
};

// How far the data are trusted; both in units of the inputs' mean square.
struct Trust {
  // Of the least-squares fit by which weights make up for errors of their inputs; infinity: they stay as they are.
  double ridge = 0;
  // Added to the inputs' moments when codes are chosen; infinity: each weight is rounded to the nearest code.
  double damping = 0;
};
// Weights learned on one half of the data are judged by the other, since few samples of many inputs tell little about
// others. First the ridge, then with it the damping. Several matrices of one layer share them: errors[i] += held-out
// error with candidate i; `errors` has as many entries as there are candidates.
struct Halves {
  const Eigen::MatrixXd& weight;
  const Moments &even, &odd;
  bool with_bias = false;
};
const std::vector<double>& ridge_candidates();
void add_held_out_errors(const Halves& halves, std::vector<double>& errors);
std::vector<Trust> trust_candidates(double ridge);
void add_held_out_errors(const Halves& halves, const Steps& steps, std::span<const Trust> candidates,
                         std::vector<double>& errors);

// Minimises the error of weight * x (+ bias) against y over the codes.
Rounded round_weights(const Eigen::MatrixXd& weight, const Moments& moments, const Steps& steps, Trust trust,
                      bool with_bias);

}  // namespace seqto::internal
