#include "quantization/calibration/channel_means.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "model/sort_nodes.h"
#include "quantization/arithmetic/arithmetic.h"
#include "runner/of_sample.h"

namespace seqto::internal {
namespace {

// Standard deviations.
constexpr double kReach = 6;

enum class Reduction { kMean, kSquare, kMagnitude, kLowest, kHighest };

const char* op_type_of(Reduction reduction) {
  if (reduction == Reduction::kMean || reduction == Reduction::kSquare) return "ReduceMean";
  return reduction == Reduction::kLowest ? "ReduceMin" : "ReduceMax";
}

// A reduction over every axis but the channels'; from opset 18 on the axes are an input.
void add_reduction(Graph& graph, int64_t opset, const ChannelTensor& tensor, Reduction reduction) {
  const char* op_type = op_type_of(reduction);
  std::string output = tensor.name + "_seqto_" + op_type + (reduction == Reduction::kSquare ? "_square" : ""),
              reduced = output + "_reduced";
  std::vector<int64_t> axes;
  for (size_t a = 0; a < tensor.rank; ++a)
    if (a != tensor.axis) axes.push_back(static_cast<int64_t>(a));
  Node node{reduced, op_type, "", {tensor.name}, {reduced}, {}, {}};
  if (tensor.last_of > 0) {
    axes = {0};
    node.inputs[0] = output + "_rows";
    graph.initializers.push_back({output + "_shape", int64_tensor({2}, {-1, tensor.last_of})});
    graph.nodes.push_back({node.inputs[0], "Reshape", "", {tensor.name, output + "_shape"}, {node.inputs[0]}, {}, {}});
  }
  if (reduction == Reduction::kMagnitude) {
    std::string magnitude = output + "_magnitude";
    graph.nodes.push_back({magnitude, "Abs", "", {node.inputs[0]}, {magnitude}, {}, {}});
    node.inputs[0] = magnitude;
  }
  if (reduction == Reduction::kSquare) {
    std::string square = output + "_of";
    graph.nodes.push_back({square, "Mul", "", {node.inputs[0], node.inputs[0]}, {square}, {}, {}});
    node.inputs[0] = square;
  }
  node.set_attribute({"keepdims", int64_t{0}});
  if (opset < 18) {
    node.set_attribute({"axes", std::move(axes)});
  } else {
    node.inputs.push_back(output + "_axes");
    int64_t count = static_cast<int64_t>(axes.size());
    graph.initializers.push_back({output + "_axes", int64_tensor({count}, std::move(axes))});
  }
  graph.nodes.push_back(std::move(node));
  Node cast{output, "Cast", "", {reduced}, {output}, {}, {}};  // of a float16 tensor, too
  cast.set_attribute({"to", static_cast<int64_t>(DataType::kFloat)});
  graph.nodes.push_back(std::move(cast));
  graph.outputs.push_back({output, DataType::kFloat, {}, ""});
}

Model with_reductions(const Model& model, std::span<const ChannelTensor> tensors,
                      const std::vector<Reduction>& reductions) {
  Model result = model;
  std::vector<std::string> names;
  for (const ChannelTensor& t : tensors) names.push_back(t.name);
  keep_ancestors(result.graph, names);
  result.graph.outputs.clear();
  for (Reduction reduction : reductions)
    for (const ChannelTensor& t : tensors) add_reduction(result.graph, model.opset(), t, reduction);
  drop_unused_initializers(result.graph);
  return result;
}

void add_share(std::vector<double>& mean, const Tensor& values, size_t samples) {
  mean.resize(static_cast<size_t>(values.element_count()));
  for (size_t c = 0; c < mean.size(); ++c)
    mean[c] += element(values, static_cast<int64_t>(c)) / static_cast<double>(samples);
}

template <class F>
void for_each_output(Session& session, const Dataset& data, std::span<const int64_t> samples, const Env& env, F f) {
  for (int64_t sample : samples) {
    env.stop_if_cancelled("quantize");
    auto outputs = run_sample(session, data.read(sample));
    for (size_t t = 0; t < outputs.size(); ++t) f(t, outputs[t]);
  }
}

}  // namespace

std::vector<std::vector<double>> channel_means(const Model& model, std::span<const ChannelTensor> tensors,
                                               const SampleRun& on) {
  const auto& [data, samples, runner, env] = on;
  auto session = runner.load(with_reductions(model, tensors, {Reduction::kMean}), {.threads = 1});
  std::vector<std::vector<double>> means(tensors.size());
  for_each_output(*session, data, samples, env,
                  [&](size_t t, const Tensor& output) { add_share(means[t], output, samples.size()); });
  return means;
}

std::vector<std::vector<double>> channel_means(Frontier& frontier, const Model& model,
                                               const std::unordered_set<LayerId>& open,
                                               std::span<const ChannelTensor> tensors, const SampleRun& on) {
  const auto& [data, samples, runner, env] = on;
  Model whole = model;
  whole.graph.outputs.clear();
  for (const ChannelTensor& t : tensors) add_reduction(whole.graph, model.opset(), t, Reduction::kMean);
  std::vector<std::string> names;
  for (const ValueInfo& output : whole.graph.outputs) names.push_back(output.name);
  frontier.advance(whole, names, open);
  std::vector<std::vector<double>> means(tensors.size());
  for (size_t s = 0; s < samples.size(); ++s) {
    env.stop_if_cancelled("quantize");
    const Sample sample = data.read(samples[s]);
    const std::vector<Tensor> outputs = of_sample(sample.name, [&] { return frontier.run(s, sample.inputs); });
    for (size_t t = 0; t < outputs.size(); ++t) add_share(means[t], outputs[t], samples.size());
  }
  return means;
}

std::vector<std::vector<float>> channel_maxima(const Model& model, std::span<const ChannelTensor> tensors,
                                               const SampleRun& on) {
  const auto& [data, samples, runner, env] = on;
  auto session = runner.load(with_reductions(model, tensors, {Reduction::kMagnitude}), {.threads = 1});
  std::vector<std::vector<float>> maxima(tensors.size());
  for_each_output(*session, data, samples, env, [&](size_t t, const Tensor& output) {
    maxima[t].resize(static_cast<size_t>(output.element_count()));
    for (size_t c = 0; c < maxima[t].size(); ++c)
      maxima[t][c] = std::max(maxima[t][c], static_cast<float>(element(output, static_cast<int64_t>(c))));
  });
  return maxima;
}

std::vector<ChannelSpread> channel_spreads(const Model& model, std::span<const ChannelTensor> tensors,
                                           const SampleRun& on) {
  const auto& [data, samples, runner, env] = on;
  auto session =
      runner.load(with_reductions(model, tensors, {Reduction::kMagnitude, Reduction::kSquare}), {.threads = 1});
  std::vector<ChannelSpread> spreads(tensors.size());
  std::vector<std::vector<double>> peaks(tensors.size()), peak_squares(tensors.size());
  for_each_output(*session, data, samples, env, [&](size_t o, const Tensor& output) {
    const size_t t = o % tensors.size();
    if (o >= tensors.size()) return add_share(spreads[t].squares, output, samples.size());
    std::vector<double>& largest = spreads[t].largest;
    largest.resize(static_cast<size_t>(output.element_count()));
    add_share(peaks[t], output, samples.size());
    peak_squares[t].resize(largest.size());
    for (size_t c = 0; c < largest.size(); ++c) {
      const double peak = element(output, static_cast<int64_t>(c));
      largest[c] = std::max(largest[c], peak);
      peak_squares[t][c] += peak * peak / static_cast<double>(samples.size());
    }
  });
  for (size_t t = 0; t < tensors.size(); ++t)
    for (size_t c = 0; c < peaks[t].size(); ++c) {
      const double mean = peaks[t][c];
      spreads[t].reach.push_back(mean + kReach * std::sqrt(std::max(0.0, peak_squares[t][c] - mean * mean)));
    }
  return spreads;
}

std::vector<ChannelPower> channel_powers(const Model& model, std::span<const ChannelTensor> tensors,
                                         const SampleRun& on) {
  const auto& [data, samples, runner, env] = on;
  const size_t count = tensors.size();
  auto session = runner.load(
      with_reductions(model, tensors, {Reduction::kMean, Reduction::kSquare, Reduction::kMagnitude}), {.threads = 1});
  std::vector<ChannelPower> powers(count);
  std::vector<std::vector<double>> now(3 * count);
  for_each_output(*session, data, samples, env, [&](size_t o, const Tensor& output) {
    now[o].clear();
    add_share(now[o], output, 1);
    if (o < 2 * count) return;
    const size_t t = o - 2 * count;
    const std::vector<double>&mean = now[t], &square = now[count + t], &largest = now[o];
    ChannelPower& power = powers[t];
    power.squares.resize(square.size());
    const double share = 1.0 / static_cast<double>(samples.size());
    for (size_t c = 0; c < square.size(); ++c) {
      power.squares[c] += share * square[c];
      power.variance += share * std::max(0.0, square[c] - mean[c] * mean[c]) / static_cast<double>(square.size());
      power.magnitude += share * largest[c] / static_cast<double>(square.size());
    }
  });
  return powers;
}

std::vector<ChannelRange> channel_ranges(const Model& model, std::span<const ChannelTensor> tensors,
                                         const SampleRun& on) {
  const auto& [data, samples, runner, env] = on;
  auto session =
      runner.load(with_reductions(model, tensors, {Reduction::kLowest, Reduction::kHighest}), {.threads = 1});
  std::vector<ChannelRange> ranges(tensors.size());
  for_each_output(*session, data, samples, env, [&](size_t t, const Tensor& output) {
    const bool is_lowest = t < tensors.size();
    ChannelRange& range = ranges[t % tensors.size()];
    std::vector<float>& ends = is_lowest ? range.lowest : range.highest;
    const std::vector<float> own = to_floats(output);
    if (ends.empty()) ends = own;
    for (size_t c = 0; c < ends.size(); ++c)
      ends[c] = is_lowest ? std::min(ends[c], own[c]) : std::max(ends[c], own[c]);
  });
  return ranges;
}

}  // namespace seqto::internal
