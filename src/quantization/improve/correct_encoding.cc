#include "quantization/improve/correct_encoding.h"

#include "model/op_traits.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/improve/encoded_layers.h"

namespace seqto::internal {
namespace {

// Codes of 7 bits take none of 8, as a study from before may have learned them.
bool keeps_limits(const Tensor& codes, const CodedWeight& weight) {
  return weight.packing != CodedWeight::Packing::kWhole || weight.highest == quant_limits(codes.type()).highest ||
         code_limits(codes).highest <= weight.highest;
}

void rescale(EncodedLayers& layers, const Node& node, const RescaledLayer& found) {
  const auto present = layers.codes_of(node);
  if (!present || !present->whole) return;
  CodedWeight weight = present->weight;
  const bool same = found.codes.type() == weight.codes.type() && found.codes.dims() == weight.codes.dims() &&
                    found.scale_before == weight.scale && found.scale.size() == weight.scale.size() &&
                    found.zero_point.size() == weight.zero_point.size();
  if (!same) return;
  weight.codes = found.codes, weight.scale = found.scale, weight.zero_point = found.zero_point;
  store(weight, *present->whole);
}

void round(EncodedLayers& layers, const Node& node, const RoundedLayer& learned) {
  const auto present = layers.codes_of(node);
  if (!present) return;
  const CodedWeight& weight = present->weight;
  const bool same = learned.codes.type() == weight.codes.type() && learned.codes.dims() == weight.codes.dims() &&
                    learned.scale == weight.scale && learned.zero_point == weight.zero_point &&
                    keeps_limits(learned.codes, weight);
  if (!same) return;
  *present->stored = learned.codes;
  const auto bias = layers.bias_of(node);
  const auto channels = std::ssize(learned.bias);
  if (!bias || !bias->holds(channels)) return;
  if (bias->scale.empty()) return layers.replace(node, *bias, float_tensor(bias->values.dims(), learned.bias));
  std::vector<int32_t> codes;
  for (size_t c = 0; c < learned.bias.size(); ++c) codes.push_back(to_int32(learned.bias[c] / bias->step(c)));
  layers.replace(node, *bias, Tensor::from(DataType::kInt32, bias->values.dims(), std::move(codes)));
}

void shift(EncodedLayers& layers, const Node& node, const std::vector<float>& by, const QuantizeOptions& options) {
  if (!layers.takes_bias(node)) return;
  if (!layers.has_bias(node)) {
    const bool in_codes = options.quantize_bias || options.format == QuantFormat::kQoperator;
    return in_codes ? layers.add_bias(node, by) : layers.add_float_bias(node, by);
  }
  const auto bias = layers.bias_of(node);
  // An activation that is added as a bias is nothing to shift, nor is one value for every channel.
  if (!bias || !holds_channels(bias->values, std::ssize(by))) return;
  if (bias->scale.empty()) {
    std::vector<float> values = to_floats(bias->values);
    for (size_t c = 0; c < by.size(); ++c) values[c] += by[c];
    return layers.replace(node, *bias, float_tensor(bias->values.dims(), std::move(values)));
  }
  if (bias->scale.size() != 1 && bias->scale.size() != by.size()) return;
  const auto old = bias->values.values<int32_t>();
  std::vector<int32_t> codes;
  for (size_t c = 0; c < by.size(); ++c) codes.push_back(to_int32(old[c] + static_cast<double>(by[c]) / bias->step(c)));
  layers.replace(node, *bias, Tensor::from(DataType::kInt32, bias->values.dims(), std::move(codes)));
}

}  // namespace

void correct(Encoding& encoding, const Encoded& of, const Corrections& corrections) {
  if (corrections.empty()) return;
  EncodedLayers layers(encoding, of.model, of.view);
  for (const Node& node : layers.nodes())
    if (auto it = corrections.scales.find(layer_of(node)); it != corrections.scales.end())
      rescale(layers, node, it->second);
  for (const Node& node : layers.nodes())
    if (auto it = corrections.rounding.find(layer_of(node)); it != corrections.rounding.end())
      round(layers, node, it->second);
  for (const Node& node : layers.nodes())
    if (auto it = corrections.shifts.find(layer_of(node)); it != corrections.shifts.end())
      shift(layers, node, it->second, of.options);
}

}  // namespace seqto::internal
