// Networks that the search is tried on beside trained ones.
#pragma once

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/random.h"
#include "seqto/dataset.h"
#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto {

// A classifier of the digits of the examples: layers with weights at random, each output channel scaled at random over
// a decade as training leaves them, and a last layer that is fitted by ridge regression.
struct GeneratedLayer {
  const char* text;  // with {i} for what it reads, {o} for what it writes, {w} for its weights
  std::vector<int64_t> weights;
};
struct GeneratedNetwork {
  const char* name;
  std::vector<GeneratedLayer> layers;
  int64_t features;
};
inline const std::vector<GeneratedNetwork>& generated_networks() {
  static const std::vector<GeneratedNetwork> kNetworks{
      {"generated_plain",
       {{"c{o} = Conv<pads=[1,1,1,1]>({i}, {w}) {o} = Relu(c{o})", {16, 1, 3, 3}},
        {"c{o} = Conv<pads=[1,1,1,1], strides=[2,2]>({i}, {w}) {o} = Relu(c{o})", {32, 16, 3, 3}},
        {"c{o} = Conv<pads=[1,1,1,1]>({i}, {w}) {o} = Relu(c{o})", {32, 32, 3, 3}},
        {"c{o} = Conv({i}, {w}) {o} = Relu(c{o})", {64, 32, 1, 1}},
        {"c{o} = Conv<pads=[1,1,1,1], strides=[2,2]>({i}, {w}) {o} = Relu(c{o})", {64, 64, 3, 3}},
        {"c{o} = Conv({i}, {w}) r{o} = Relu(c{o}) {o} = Flatten(r{o})", {48, 64, 1, 1}}},
       48 * 4},
      {"generated_residual",
       {{"c{o} = Conv<pads=[1,1,1,1]>({i}, {w}) {o} = Relu(c{o})", {24, 1, 3, 3}},
        {"c{o} = Conv<pads=[1,1,1,1], group=24>({i}, {w}) r{o} = Relu(c{o}) {o} = Add(r{o}, {i})", {24, 1, 3, 3}},
        {"c{o} = Conv({i}, {w}) r{o} = Relu(c{o}) {o} = Add(r{o}, {i})", {24, 24, 1, 1}},
        {"c{o} = Conv<pads=[1,1,1,1], strides=[2,2]>({i}, {w}) {o} = Relu(c{o})", {48, 24, 3, 3}},
        {"c{o} = Conv<pads=[1,1,1,1], group=48>({i}, {w}) r{o} = Relu(c{o}) {o} = Add(r{o}, {i})", {48, 1, 3, 3}},
        {"c{o} = Conv({i}, {w}) r{o} = Relu(c{o}) {o} = Add(r{o}, {i})", {48, 48, 1, 1}},
        {"c{o} = Conv({i}, {w}) r{o} = Relu(c{o}) {o} = Add(r{o}, {i})", {48, 48, 1, 1}},
        {"c{o} = Conv({i}, {w}) r{o} = Relu(c{o}) {o} = Flatten(r{o})", {32, 48, 1, 1}}},
       32 * 16},
      {"generated_dense",
       {{"f{o} = Flatten({i}) m{o} = MatMul(f{o}, {w}) {o} = Relu(m{o})", {64, 256}},
        {"m{o} = MatMul({i}, {w}) {o} = Relu(m{o})", {256, 192}},
        {"m{o} = MatMul({i}, {w}) r{o} = Relu(m{o}) {o} = Add(r{o}, {i})", {192, 192}},
        {"m{o} = MatMul({i}, {w}) r{o} = Relu(m{o}) {o} = Add(r{o}, {i})", {192, 192}},
        {"m{o} = MatMul({i}, {w}) {o} = Relu(m{o})", {192, 160}},
        {"m{o} = MatMul({i}, {w}) {o} = Relu(m{o})", {160, 128}}},
       128},
  };
  return kNetworks;
}

// Not std::normal_distribution: that differs from library to library.
inline double normal(std::mt19937_64& engine) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(internal::below(1 << 20, engine)) / (1 << 20);
  return sum;
}

inline Tensor random_weights(const std::vector<int64_t>& dims, std::mt19937_64& engine) {
  const bool dense = dims.size() == 2;
  const int64_t outputs = dense ? dims[1] : dims[0];
  std::vector<float> values(
      static_cast<size_t>(std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies())));
  const double fan_in = static_cast<double>(values.size()) / static_cast<double>(outputs);
  std::vector<double> scale(static_cast<size_t>(outputs));
  for (double& s : scale)
    s = std::sqrt(2 / fan_in) * std::pow(10, static_cast<double>(internal::below(1000, engine)) / 1000 - 0.5);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] =
        static_cast<float>(normal(engine) * scale[dense ? i % scale.size() : i / (values.size() / scale.size())]);
  return Tensor::from(DataType::kFloat, dims, values);
}

inline Model network_of(const GeneratedNetwork& g, size_t layers, std::mt19937_64 engine, const Tensor& last) {
  std::string nodes = "z = Cast<to=1>(x) x0 = Mul(z, sixteenth) ", input = "x0";
  std::vector<Initializer> weights;
  for (size_t k = 0; k < layers; ++k) {
    const std::string w = fmt::format("w{}", k), out = fmt::format("x{}", k + 1);
    nodes +=
        fmt::format(fmt::runtime(g.layers[k].text), fmt::arg("i", input), fmt::arg("o", out), fmt::arg("w", w)) + " ";
    weights.push_back({w, random_weights(g.layers[k].weights, engine)});
    input = out;
  }
  weights.push_back({"sixteenth", Tensor::from(DataType::kFloat, {}, std::vector<float>{1.0f / 16})});
  const bool whole = last.type() != DataType::kUndefined;
  if (whole) {
    nodes += fmt::format("y = MatMul({}, readout)", input);
    weights.push_back({"readout", last});
  }
  Model model = parse_model_text(
      fmt::format("<ir_version: 8, opset_import: [\"\" : 17]> g (uint8[N,1,8,8] x) => (float[N,{}] {}) {{{}}}",
                  whole ? 10 : g.features, whole ? "y" : input, nodes));
  model.graph.initializers = std::move(weights);
  return model;
}

inline void write_generated(const GeneratedNetwork& g, const std::filesystem::path& digits,
                            const std::filesystem::path& file) {
  const std::mt19937_64 engine(7);
  const Model features = network_of(g, g.layers.size(), engine, {});
  auto runner = make_runner("cpu");
  auto session = runner->load(features);
  const auto data = open_dataset(digits, features.graph.free_inputs());
  const auto count = static_cast<Eigen::Index>(std::min<int64_t>(data->size(), 300));
  Eigen::MatrixXd x(count, g.features), y = Eigen::MatrixXd::Zero(count, 10);
  for (Eigen::Index i = 0; i < count; ++i) {
    const Sample sample = data->read(i);
    const std::vector<Tensor> outputs = session->run(sample.inputs);
    const std::span<const float> row = outputs[0].values<float>();
    for (Eigen::Index k = 0; k < g.features; ++k) x(i, k) = row[static_cast<size_t>(k)];
    y(i, sample.label) = 10;  // logits that are as sure as a trained network's
  }
  Eigen::MatrixXd normal = x.transpose() * x;
  normal.diagonal().array() += 1e-3 * normal.trace() / static_cast<double>(g.features);
  const Eigen::MatrixXd solved = normal.ldlt().solve(x.transpose() * y);
  std::vector<float> values;
  for (Eigen::Index k = 0; k < g.features; ++k)
    for (Eigen::Index c = 0; c < 10; ++c) values.push_back(static_cast<float>(solved(k, c)));
  save_model(network_of(g, g.layers.size(), engine, Tensor::from(DataType::kFloat, {g.features, 10}, values)), file);
}

}  // namespace seqto
