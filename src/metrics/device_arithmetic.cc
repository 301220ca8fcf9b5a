#include "metrics/device_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/op_traits.h"

namespace seqto::internal {
namespace {

// What DequantizeLinear made floats of, again.
template <class T>
Tensor codes_of(const Tensor& values, float scale, int zero) {
  std::vector<T> codes;
  codes.reserve(static_cast<size_t>(values.element_count()));
  for (const float value : values.values<float>()) codes.push_back(static_cast<T>(std::lrint(value / scale) + zero));
  return Tensor::from(std::is_signed_v<T> ? DataType::kInt8 : DataType::kUint8, values.dims(), std::move(codes));
}

double rounded(double value, Arithmetic::Rounding rounding) {
  return rounding == Arithmetic::Rounding::kHalfUp ? std::floor(value + 0.5) : std::nearbyint(value);
}

template <class T>
Tensor quantized(const Tensor& values, float scale, int zero, DataType type, Arithmetic::Rounding rounding) {
  constexpr double kLowest = std::numeric_limits<T>::lowest(), kHighest = std::numeric_limits<T>::max();
  std::vector<T> codes;
  codes.reserve(static_cast<size_t>(values.element_count()));
  for (const float value : values.values<float>()) {
    const double code = rounded(static_cast<double>(value / scale), rounding) + zero;
    codes.push_back(std::isnan(code) ? T{0} : static_cast<T>(std::clamp(code, kLowest, kHighest)));
  }
  return Tensor::from(type, values.dims(), std::move(codes));
}

}  // namespace

DeviceArithmetic::DeviceArithmetic(const Model& model, Runner& runner, const Arithmetic& arithmetic)
    : arithmetic_(arithmetic),
      limit_(std::numeric_limits<int64_t>::max() >> (64 - std::min<int64_t>(arithmetic.accumulator_bits, 62))),
      layers_(integer_layers(model)),
      steps_(model, runner, {},
             [this](const Node& node, std::span<const Tensor> reads) { return compute(node, reads); }) {
  for (const Initializer& i : model.graph.initializers) constants_[i.name] = &i.tensor;
  for (IntegerLayer& layer : layers_) {
    layer.audited.limit = limit_;
    layer.audited.largest_sum = 0;
    if (layer.weights.empty()) continue;
    layer.audited.exact_because.clear();
    layer.audited.largest_sum = largest_sum(layer);
    by_sums_[layer.sums] = &layer;
  }
}

std::vector<AuditedLayer> DeviceArithmetic::layers() const {
  std::vector<AuditedLayer> audited;
  for (const IntegerLayer& layer : layers_) audited.push_back(layer.audited);
  return audited;
}

std::optional<Tensor> DeviceArithmetic::compute(const Node& node, std::span<const Tensor> reads) {
  if (reads.empty() || reads[0].type() != DataType::kFloat) return {};
  if (is_quantize(node)) return quantize(node, reads[0]);
  const auto found = by_sums_.find(node.outputs[0]);
  if (found == by_sums_.end()) return {};
  IntegerLayer& layer = *found->second;
  const Tensor codes = layer.input_type == DataType::kInt8
                           ? codes_of<int8_t>(reads[0], layer.input_scale, layer.input_zero)
                           : codes_of<uint8_t>(reads[0], layer.input_scale, layer.input_zero);
  LayerResult result = accumulate(layer, codes, limit_);
  layer.audited.pairs += result.pairs;
  layer.audited.saturated_pairs += result.saturated_pairs;
  layer.audited.outputs += result.outputs;
  layer.audited.saturated_outputs += result.saturated_outputs;
  return std::move(result.output);
}

// Nothing for scales of channels and types of fewer bits, which the runtime rounds.
std::optional<Tensor> DeviceArithmetic::quantize(const Node& node, const Tensor& values) const {
  const auto constant = [&](size_t i) -> const Tensor* {
    const auto found = i < node.inputs.size() ? constants_.find(node.inputs[i]) : constants_.end();
    return found == constants_.end() ? nullptr : found->second;
  };
  const Tensor *scale = constant(1), *zero = constant(2);
  if (!scale || scale->type() != DataType::kFloat || scale->element_count() != 1) return {};
  if (zero ? zero->element_count() != 1 : node.inputs.size() > 2 || node.attribute("output_dtype")) return {};
  const DataType type = zero ? zero->type() : DataType::kUint8;
  const float s = scale->values<float>()[0];
  const int z = zero ? static_cast<int>(element(*zero, 0)) : 0;
  switch (type) {
    case DataType::kUint8:
      return quantized<uint8_t>(values, s, z, type, arithmetic_.rounding);
    case DataType::kInt8:
      return quantized<int8_t>(values, s, z, type, arithmetic_.rounding);
    case DataType::kUint16:
      return quantized<uint16_t>(values, s, z, type, arithmetic_.rounding);
    case DataType::kInt16:
      return quantized<int16_t>(values, s, z, type, arithmetic_.rounding);
    default:
      return {};
  }
}

}  // namespace seqto::internal
