#include "metrics/device_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "model/op_traits.h"

namespace seqto::internal {
namespace {

constexpr int64_t kWidest = (int64_t{1} << 61) - 1;  // no sum gets there, nor does one more product leave int64

double rounded(double value, Arithmetic::Rounding rounding) {
  return rounding == Arithmetic::Rounding::kHalfUp ? std::floor(value + 0.5) : std::nearbyint(value);
}

template <class T>
Tensor rounded_codes(const Tensor& values, float scale, int zero, DataType type, Arithmetic::Rounding rounding) {
  constexpr double kLowest = std::numeric_limits<T>::lowest(), kHighest = std::numeric_limits<T>::max();
  std::vector<T> result;
  result.reserve(static_cast<size_t>(values.element_count()));
  for (const float value : values.values<float>()) {
    const double code = rounded(static_cast<double>(value / scale), rounding) + zero;
    result.push_back(std::isnan(code) ? T{0} : static_cast<T>(std::clamp(code, kLowest, kHighest)));
  }
  return Tensor::from(type, values.dims(), std::move(result));
}

// Nothing for types of fewer bits.
std::optional<Tensor> quantized(const Tensor& values, float scale, int zero, DataType type,
                                Arithmetic::Rounding rounding) {
  switch (type) {
    case DataType::kUint8:
      return rounded_codes<uint8_t>(values, scale, zero, type, rounding);
    case DataType::kInt8:
      return rounded_codes<int8_t>(values, scale, zero, type, rounding);
    case DataType::kUint16:
      return rounded_codes<uint16_t>(values, scale, zero, type, rounding);
    case DataType::kInt16:
      return rounded_codes<int16_t>(values, scale, zero, type, rounding);
    default:
      return {};
  }
}

// Accumulators for 16 bits take the place of two for 8: ESP32-S3 has 16 of 20 bits, or 8 of 40.
int64_t limit_of(const IntegerLayer& layer, int64_t bits) {
  if (element_bits(layer.input_type) == 16) bits *= 2;
  return bits > 62 ? kWidest : (int64_t{1} << (bits - 1)) - 1;
}

}  // namespace

DeviceArithmetic::DeviceArithmetic(const Model& model, Runner& runner, const Arithmetic& arithmetic)
    : arithmetic_(arithmetic),
      layers_(integer_layers(model, false)),
      steps_(model, runner, {},
             [this](const Node& node, std::span<const Tensor> reads) { return compute(node, reads); }) {
  for (const Initializer& i : model.graph.initializers) constants_[i.name] = &i.tensor;
  for (IntegerLayer& layer : layers_) {
    layer.audited.limit = limit_of(layer, arithmetic.accumulator_bits);
    layer.audited.largest_sum = 0;
    // Exact on the CPU alone: sums of a device have an end.
    std::string because = std::exchange(layer.audited.exact_because, {});
    if (layer.weights.empty()) {
      if (!because.empty()) layer.audited.not_emulated_because = std::move(because);
      continue;
    }
    layer.audited.largest_sum = largest_sum(layer);
    by_sums_[layer.sums] = &layer;
  }
}

std::vector<Tensor> DeviceArithmetic::run(std::span<const Tensor> inputs) {
  wide_ = false;
  return steps_.run(inputs);
}

std::vector<Tensor> DeviceArithmetic::run_wide(std::span<const Tensor> inputs) {
  wide_ = true;
  return steps_.run(inputs);
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
  // What DequantizeLinear made floats of, again.
  const auto codes =
      quantized(reads[0], layer.input_scale, layer.input_zero, layer.input_type, Arithmetic::Rounding::kHalfEven);
  LayerResult result = accumulate(layer, *codes, wide_ ? kWidest : layer.audited.limit);
  if (wide_) return std::move(result.output);
  layer.audited.pairs += result.pairs;
  layer.audited.saturated_pairs += result.saturated_pairs;
  layer.audited.outputs += result.outputs;
  layer.audited.saturated_outputs += result.saturated_outputs;
  return std::move(result.output);
}

// Nothing for scales of channels, which the runtime rounds.
std::optional<Tensor> DeviceArithmetic::quantize(const Node& node, const Tensor& values) const {
  const auto constant = [&](size_t i) -> const Tensor* {
    const auto found = i < node.inputs.size() ? constants_.find(node.inputs[i]) : constants_.end();
    return found == constants_.end() ? nullptr : found->second;
  };
  const Tensor *scale = constant(1), *zero = constant(2);
  if (!scale || scale->type() != DataType::kFloat || scale->element_count() != 1) return {};
  if (zero ? zero->element_count() != 1 : node.inputs.size() > 2 || node.attribute("output_dtype")) return {};
  return quantized(values, scale->values<float>()[0], zero ? static_cast<int>(element(*zero, 0)) : 0,
                   zero ? zero->type() : DataType::kUint8, arithmetic_.rounding);
}

}  // namespace seqto::internal
