#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/calibration/channel_means.h"
#include "quantization/plan/weight_sites.h"
#include "quantization/read/compare_tensors.h"
#include "seqto/explain.h"

namespace seqto {
namespace {

using namespace internal;

// A weight as the sums of its layer see it.
struct Weight {
  const Node* node;
  WeightSite site;
  const Tensor* tensor;
  bool is_product = false;  // with an input whose channels are known

  int64_t outputs() const { return site.grouping.outer * site.grouping.channels; }
  int64_t inputs() const { return site.grouping.before * site.grouping.after; }

  // visit(output, which of its inputs, place in the tensor)
  template <class Visit>
  void for_each(Visit visit) const {
    const Grouping& g = site.grouping;
    size_t place = 0;
    for (int64_t o = 0; o < g.outer; ++o)
      for (int64_t b = 0; b < g.before; ++b)
        for (int64_t c = 0; c < g.channels; ++c)
          for (int64_t a = 0; a < g.after; ++a) visit(o * g.channels + c, b * g.after + a, place++);
  }

  ChannelTensor input() const {
    if (is_conv(*node)) return {node->inputs[0], tensor->dims().size()};
    return {node->inputs[0], 2, 1, inputs()};
  }
};

// Each constant once: as a product reads it, where one does.
std::vector<Weight> weights_of(const Model& model, const GraphView& view) {
  const ConstantOf constant = [&](const std::string& name) { return view.constant(name); };
  const TransposedWeights transposed = transposed_weights(model, constant);
  std::vector<Weight> weights;
  std::unordered_map<std::string, size_t> places;
  for (const Node& node : model.graph.nodes) {
    const bool is_product = is_conv(node) || (has(node, kMatrixProduct) && node.int_attribute("transA", 0) == 0);
    if (!is_product && !is_gather(node)) continue;
    for (const WeightSite& site : weight_sites(node, constant, transposed)) {
      const Weight weight{&node, site, constant(site.weight),
                          is_product && site.input == 1 && site.grouping.outer == 1};
      const auto [place, is_new] = places.emplace(site.weight, weights.size());
      if (is_new) weights.push_back(weight);
      else if (weight.is_product && !weights[place->second].is_product) weights[place->second] = weight;
    }
  }
  return weights;
}

void add_8_bit_noise(LocalError& error, const Weight& weight, const std::vector<float>& values) {
  const auto outputs = static_cast<size_t>(weight.outputs());
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<double> lowest(outputs, kNone), highest(outputs, -kNone);
  weight.for_each([&](int64_t o, int64_t, size_t at) {
    lowest[o] = std::min<double>(lowest[o], values[at]), highest[o] = std::max<double>(highest[o], values[at]);
  });
  constexpr double kCodes = 255;
  std::vector<double> noise(outputs);
  weight.for_each([&](int64_t o, int64_t, size_t at) {
    const double scale = (highest[o] - lowest[o]) / kCodes;
    if (scale <= 0) return;
    const double zero = std::clamp(-std::nearbyint(lowest[o] / scale), 0.0, kCodes);
    const double code = std::clamp(std::nearbyint(values[at] / scale) + zero, 0.0, kCodes);
    const double off = values[at] - scale * (code - zero);
    noise[o] += off * off;
  });
  double sum = 0;
  for (const double n : noise) {
    error.worst_output = std::max(error.worst_output, n / static_cast<double>(weight.inputs()));
    sum += n;
  }
  error.norm = std::sqrt(sum);
}

// `squares`: of the input's channels; empty: all alike.
double relative_error(const Weight& weight, const std::vector<float>& was, const std::vector<float>& is,
                      const std::vector<double>& squares) {
  const auto channels = std::ssize(squares);
  const int64_t groups = is_conv(*weight.node) ? weight.node->int_attribute("group", 1) : 1;
  const int64_t kernel = channels ? std::max<int64_t>(1, weight.inputs() * groups / channels) : 1;
  const int64_t outputs_each = std::max<int64_t>(1, weight.outputs() / groups);
  std::vector<double> signal(static_cast<size_t>(weight.outputs())), noise(signal.size());
  weight.for_each([&](int64_t o, int64_t i, size_t at) {
    const double square = channels ? squares[o / outputs_each * (channels / groups) + i / kernel] : 1;
    const double off = static_cast<double>(was[at]) - is[at];
    signal[o] += square * was[at] * was[at];
    noise[o] += square * off * off;
  });
  double sum = 0;
  for (size_t o = 0; o < signal.size(); ++o)
    if (signal[o] > 0) sum += noise[o] / signal[o];
  return sum;
}

}  // namespace

std::vector<LocalError> local_errors(const Model& model, std::span<const Model> quantized, const SampleRun& on) {
  const GraphView view(model);
  const std::vector<Weight> weights = weights_of(model, view);
  std::vector<ChannelTensor> inputs;
  std::map<std::pair<std::string, int64_t>, size_t> input_at;  // by name and how its channels lie
  const auto key = [](const ChannelTensor& input) { return std::pair(input.name, input.last_of); };
  for (const Weight& weight : weights)
    if (weight.is_product && input_at.emplace(key(weight.input()), inputs.size()).second)
      inputs.push_back(weight.input());
  std::vector<ChannelPower> powers;
  if (!inputs.empty()) powers = channel_powers(model, inputs, on);
  std::vector<std::unordered_map<std::string, Tensor>> coded(quantized.size());
  for (size_t q = 0; q < quantized.size(); ++q)
    for (WeightPair& pair : compare_tensors(model, quantized[q]).weights)
      coded[q].emplace(std::move(pair.tensor), std::move(pair.now));
  std::vector<LocalError> errors;
  for (const Weight& weight : weights) {
    LocalError error{.layer = weight.node->name};
    const std::vector<float> values = to_floats(*weight.tensor);
    std::vector<double> squares;
    if (weight.is_product) {
      const ChannelPower& power = powers[input_at.at(key(weight.input()))];
      squares = power.squares;
      for (const double square : squares) error.square += square / static_cast<double>(squares.size());
      error.variance = power.variance, error.magnitude = power.magnitude;
    }
    add_8_bit_noise(error, weight, values);
    for (const auto& of : coded) {
      const auto now = of.find(weight.site.weight);
      error.relative.push_back(now == of.end() ? 0 : relative_error(weight, values, to_floats(now->second), squares));
    }
    errors.push_back(std::move(error));
  }
  return errors;
}

}  // namespace seqto
