// Room: quantization. Fields of a layer's scheme: what single layers of a plan want otherwise than QuantizeOptions.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "seqto/model.h"
#include "seqto/tensor_overrides.h"

namespace seqto {

// Unset fields are as QuantizeOptions, or the run's improvers, have them. Behind each: the schemes that have it.
// "Static" is int8 and int8w_int16a.
//
// A tensor has one form for all layers that read and write it. Where layers want an activation differently, the form
// with more bits counts; with equal bits that of a layer whose field is set, first those that read the tensor, in graph
// order. The layers in another type then read what they did not ask for, and where the types of a layer's activations
// differ, runtimes compute it in float. So give layers that belong together (groups.h) the same fields.
// QuantizeOptions::tensor_overrides go before.
struct LayerOptions {
  // Weights.
  std::optional<DataType> weight_type;    // static; int8_dynamic and int8_weights: 8 bits; int4_weights: int4, uint4
  std::optional<bool> symmetric_weights;  // static, int8_dynamic, int8_weights, int4_weights; unset: by weight_type
  std::optional<bool> per_channel;        // static, int8_dynamic
  std::optional<bool> reduce_range;       // static, int8_dynamic
  std::optional<WeightClipping> weight_clipping;  // static
  std::optional<int64_t> block_size;              // static in QDQ form, int8_weights, int4_weights
  std::optional<int> bits;                        // int4_weights: 2, 4, 8
  // Activations.
  std::optional<DataType> activation_type;    // int8 in QDQ form
  std::optional<bool> symmetric_activations;  // int8 in QDQ form
  // Static: the ranges of this name (Quantizer::add_ranges). `seqto quantize` and `tune` name them by the calibration
  // that makes them: "percentile", "percentile:99.99", "mse" ...
  std::optional<std::string> method;
  // Rewritings of the float model into an equal one that is easier to quantize; static, int8_dynamic. Those of tensors,
  // and of what these are linked with (improve.h): where the layers that read them differ, true counts.
  std::optional<bool> center;
  std::optional<bool> equalize;
  std::optional<bool> smooth_quant;
  // Corrections.
  std::optional<bool> learned_rounding;  // static in QDQ form, int8_weights; "rounding": "learned" or "nearest" in JSON
  std::optional<bool> bias_correction;   // static in QDQ form, int8_weights, int4_weights

  bool empty() const { return *this == LayerOptions{}; }
  auto operator<=>(const LayerOptions&) const = default;
};
// One object of the fields that are set.
std::string layer_options_to_json(const LayerOptions& options);
// Throws Error{kInvalidInput} naming the key.
LayerOptions layer_options_from_json(const std::string& text);

}  // namespace seqto
