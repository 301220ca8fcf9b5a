#include "seqto/explain.h"

#include <algorithm>
#include <utility>

#include "model/graph_view.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/calibration/histograms.h"
#include "quantization/calibration/observe_values.h"
#include "quantization/plan/weight_sites.h"
#include "seqto/dialects.h"

namespace seqto {
namespace {

using namespace internal;

std::vector<std::string> weights_of(const Node& node, const GraphView& index) {
  std::vector<std::string> weights;
  for (const WeightSite& site : weight_sites(node, [&](const std::string& name) { return index.constant(name); }))
    weights.push_back(node.inputs[site.input]);
  return weights;
}

// Neighbours together until there are few enough.
Histogram merged(Histogram h) {
  while (h.counts.size() > kMostBins) {
    Histogram half;
    for (size_t i = 0; i < h.counts.size(); i += 2) {
      half.edges.push_back(h.edges[i]);
      half.counts.push_back(h.counts[i] + (i + 1 < h.counts.size() ? h.counts[i + 1] : 0));
    }
    // A bin without a neighbour is as wide as the others all the same.
    half.edges.push_back(half.edges.front() + (h.edges[2] - h.edges[0]) * static_cast<float>(half.counts.size()));
    h = std::move(half);
  }
  return h;
}

TensorValues values_of(const std::vector<float>& weight) {
  TensorValues v;
  const auto [low, high] = std::ranges::minmax(weight);
  v.lowest = low;
  v.highest = high;
  if (low == high) {
    v.histogram = {{static_cast<int64_t>(weight.size())}, {low, high}};
    return v;
  }
  FixedHistogram histogram(low, high, kMostBins, false);
  histogram.add(weight);
  v.histogram = histogram.histogram();
  return v;
}

std::optional<QuantizedRange> quantized_range(const std::vector<TensorOverride>& channels) {
  if (channels.empty() || !channels[0].quant_type || !is_code_type(*channels[0].quant_type)) return {};
  QuantizedRange range{.type = *channels[0].quant_type, .channels = static_cast<int64_t>(channels.size())};
  const QuantLimits limits = quant_limits(range.type);
  for (const TensorOverride& c : channels) {
    const double scale = *c.scale, zero_point = *c.zero_point;
    range.lowest = std::min(range.lowest, (limits.lowest - zero_point) * scale);
    range.highest = std::max(range.highest, (limits.highest - zero_point) * scale);
    range.scale = std::max(range.scale, scale);
  }
  return range;
}

}  // namespace

std::vector<LayerTensors> layer_tensors(const Model& model) {
  const GraphView index(model);
  std::vector<LayerTensors> layers;
  for (const Node& node : model.graph.nodes) {
    LayerTensors layer{node.name, {}, weights_of(node, index), {}};
    const auto add_input = [&](const std::string& name) {
      if (!name.empty() && !index.constant(name) && std::ranges::find(layer.inputs, name) == layer.inputs.end())
        layer.inputs.push_back(name);
    };
    std::ranges::for_each(node.inputs, add_input);
    for (const Attribute& a : node.attributes)
      if (const auto* opaque = std::get_if<OpaqueAttribute>(&a.value))
        std::ranges::for_each(opaque->captures, add_input);
    for (const auto& name : node.outputs)
      if (!name.empty()) layer.outputs.push_back(name);
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::map<std::string, TensorValues> tensor_values(const Model& model, const Model& quantized, const SampleRun& on) {
  std::map<std::string, TensorValues> values;
  for (auto& [name, range] : observe_values(model, on, kMostBins))
    values[name] = {range.lowest, range.highest, merged(*range.histogram), {}};
  const GraphView index(model);
  for (const Node& node : model.graph.nodes)
    for (const auto& name : weights_of(node, index)) {
      const Tensor& weight = *index.constant(name);
      if (weight.is_float() && weight.element_count() > 0) values.try_emplace(name, values_of(to_floats(weight)));
    }
  for (const auto& [name, channels] : encodings_of(model, quantized))
    if (const auto found = values.find(name); found != values.end())
      found->second.quantized = quantized_range(channels);
  return values;
}

}  // namespace seqto
