#include "quantization/improve/smooth_alpha.h"

#include <algorithm>
#include <cmath>

#include "model/sort_nodes.h"
#include "quantization/calibration/channel_means.h"

namespace seqto::internal {
namespace {

using Eigen::Index;
using Eigen::MatrixXf;

constexpr float kSmallestFactor = 1e-5f, kLargestFactor = 1e5f;
// So many samples and rows of each are enough to tell one alpha from another.
constexpr size_t kSamples = 8;
constexpr int64_t kRows = 32;

using Factors = Eigen::Map<const Eigen::VectorXf>;

void round_to(MatrixXf& values, float step) {
  if (step > 0) values = (values / step).array().round().matrix() * step;
}

// Rounded to 256 steps between the extremes; the rows tell the sign, the maxima over all samples the size.
MatrixXf rounded_activation(const MatrixXf& rows, const SmoothLayers& layers, const Factors& factors) {
  MatrixXf x = rows * factors.cwiseInverse().asDiagonal();
  float largest =
      (Eigen::Map<const Eigen::VectorXf>(layers.activation.data(), factors.size()).array() / factors.array())
          .maxCoeff();
  float low = std::min(0.0f, x.minCoeff()), high = std::max(0.0f, x.maxCoeff());
  (high >= -low ? high : low) = high >= -low ? largest : -largest;
  round_to(x, (high - low) / 255);
  return x;
}

MatrixXf rounded_weight(const MatrixXf& weight, const Factors& factors, bool per_channel) {
  MatrixXf w = factors.asDiagonal() * weight;
  if (!per_channel) {
    round_to(w, w.cwiseAbs().maxCoeff() / 127);
    return w;
  }
  for (Index c = 0; c < w.cols(); ++c)
    if (float step = w.col(c).cwiseAbs().maxCoeff() / 127; step > 0)
      w.col(c) = (w.col(c) / step).array().round().matrix() * step;
  return w;
}

double error_with(const SmoothLayers& layers, const MatrixXf& rows, const std::vector<MatrixXf>& wanted,
                  const std::vector<float>& factors, bool per_channel) {
  Factors f(factors.data(), static_cast<Index>(factors.size()));
  MatrixXf x = rounded_activation(rows, layers, f);
  double error = 0;
  for (size_t l = 0; l < layers.weights.size(); ++l) {
    double size = wanted[l].squaredNorm();
    if (size > 0) error += (x * rounded_weight(layers.weights[l], f, per_channel) - wanted[l]).squaredNorm() / size;
  }
  return error;
}

// Rows of `tensor` at equal distance,.
MatrixXf some_rows(const Tensor& tensor) {
  int64_t channels = tensor.dims().empty() ? 1 : tensor.dims().back();
  int64_t count = channels ? tensor.element_count() / channels : 0, taken = std::min(count, kRows);
  MatrixXf rows(taken, channels);
  auto values = tensor.values<float>();
  for (int64_t r = 0; r < taken; ++r)
    for (int64_t c = 0; c < channels; ++c) rows(r, c) = values[static_cast<size_t>(r * count / taken * channels + c)];
  return rows;
}

}  // namespace

std::vector<float> smooth_factors(const SmoothLayers& layers, double alpha) {
  std::vector<float> factors(layers.activation.size(), 1.0f);
  auto used = [&](size_t k) { return layers.activation[k] > 0 && layers.weight[k] > 0; };
  auto log_factor = [&](size_t k) {
    return alpha * std::log(layers.activation[k]) - (1 - alpha) * std::log(layers.weight[k]);
  };
  double mean = 0, count = 0;
  for (size_t k = 0; k < factors.size(); ++k)
    if (used(k)) mean += log_factor(k), ++count;
  for (size_t k = 0; k < factors.size(); ++k)
    if (used(k))
      factors[k] =
          std::clamp(static_cast<float>(std::exp(log_factor(k) - mean / count)), kSmallestFactor, kLargestFactor);
  return factors;
}

std::vector<MatrixXf> activation_rows(const Model& model, std::span<const std::string> tensors, const SampleRun& on) {
  const auto& [data, samples, runner, env] = on;
  Model part = model;
  keep_ancestors(part.graph, tensors);
  part.graph.outputs.clear();
  for (const auto& name : tensors) {
    std::string output = name + "_seqto_rows";
    part.graph.nodes.push_back({output, "Identity", "", {name}, {output}, {}, {}});
    part.graph.outputs.push_back({output, DataType::kFloat, {}, ""});
  }
  drop_unused_initializers(part.graph);
  auto session = runner.load(part, {.threads = 1});
  std::vector<MatrixXf> rows(tensors.size());
  size_t taken = std::min(samples.size(), kSamples);
  for (size_t i = 0; i < taken; ++i) {
    env.stop_if_cancelled("quantize");
    auto outputs = run_sample(*session, data.read(samples[i * samples.size() / taken]));
    for (size_t t = 0; t < outputs.size(); ++t) {
      MatrixXf more = some_rows(outputs[t]);
      Index before = rows[t].rows();
      rows[t].conservativeResize(before + more.rows(), more.cols());
      rows[t].bottomRows(more.rows()) = more;
    }
  }
  return rows;
}

std::vector<float> best_factors(const SmoothLayers& layers, const MatrixXf& rows, bool per_channel) {
  if (rows.rows() == 0) return {};
  std::vector<MatrixXf> wanted;
  for (const MatrixXf& w : layers.weights) wanted.push_back(rows * w);
  std::vector<float> best, none(layers.activation.size(), 1.0f);
  double least = error_with(layers, rows, wanted, none, per_channel);
  for (int tenths = 3; tenths <= 9; ++tenths) {
    auto factors = smooth_factors(layers, tenths / 10.0);
    double error = error_with(layers, rows, wanted, factors, per_channel);
    if (error < least) least = error, best = std::move(factors);
  }
  return best;
}

}  // namespace seqto::internal
