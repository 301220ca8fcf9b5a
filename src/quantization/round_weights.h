// Room: quantization. Codes of a weight matrix from the second moments of what goes in and what shall come out.
#pragma once

#include <cstdint>

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

// The weight: real value = code * scale[output]; zero points are taken off.
struct Steps {
  Eigen::VectorXd scale;  // one an output
  int32_t lowest = -128, highest = 127;
};

struct Rounded {
  Eigen::MatrixXd codes;                        // outputs x inputs
  Eigen::VectorXd bias;                         // empty without one
  double error_nearest = 0, error_learned = 0;  // sums over the outputs of the mean squared error
};

// The ridge, in units of the inputs' mean square, with which a least-squares fit of one half of the data serves the
// other half best; infinity when the weights as they are serve better than any fit. Several matrices of one layer share
// a ridge: errors[i] += held-out error with ridge_candidates()[i].
const Eigen::VectorXd& ridge_candidates();
void add_held_out_errors(const Eigen::MatrixXd& weight, const Moments& even, const Moments& odd, bool with_bias,
                         Eigen::VectorXd& errors);

// Minimises the error of weight * x (+ bias) against y over the codes. `ridge` tells how far the weights may move to
// make up for errors of their inputs.
Rounded round_weights(const Eigen::MatrixXd& weight, const Moments& moments, const Steps& steps, double ridge,
                      bool with_bias);

}  // namespace seqto::internal
