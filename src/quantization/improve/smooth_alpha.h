// Room: quantization/improve. How much of an activation's range the weights take over: factors, and the best share.
#pragma once

#include <Eigen/Core>
#include <span>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/runner.h"

namespace seqto::internal {

// The layers that read one activation.
struct SmoothLayers {
  std::vector<float> activation, weight;  // largest magnitude of each channel, over all layers
  std::vector<Eigen::MatrixXf> weights;   // one a layer, channels x outputs; only for best_alpha()
};

// What the activation's channels are divided by. The mean factor is 1, which rounding does not see: a channel that was
// never used then keeps a weight of usual size.
std::vector<float> smooth_factors(const SmoothLayers& layers, double alpha);

// Rows of each tensor, channels last, of some of the samples.
std::vector<Eigen::MatrixXf> activation_rows(const Model& model, std::span<const std::string> tensors,
                                             const SampleRun& on);

// The factors under which the layers' outputs on these rows come nearest to the float ones with int8 weights and
// activations, alpha from 0.3 to 0.9; empty where none is better than no factors.
std::vector<float> best_factors(const SmoothLayers& layers, const Eigen::MatrixXf& rows, bool per_channel);

}  // namespace seqto::internal
