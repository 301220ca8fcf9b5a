// Room: quantization. Parameters that a user sets for single tensors: onnxruntime's TensorQuantOverrides.
//
// A tensor has a list of overrides: one entry for the tensor as a whole, or one for each channel of `axis`. What an
// entry leaves out is computed as for every other tensor.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/model.h"

namespace seqto {

// How the range of a weight is chosen.
enum class WeightClipping {
  kNone,  // its smallest and largest value, as onnxruntime does
  kMse,   // the range, tensor by tensor or channel by channel, with the smallest squared error of the weight
};
std::string_view to_string(WeightClipping clipping);          // "none", "mse"
WeightClipping parse_weight_clipping(std::string_view name);  // throws Error{kUsage}

struct ParamsOverride {
  std::optional<DataType> quant_type;
  // Both or neither. Exclude the four below, which are only the way to a scale.
  std::optional<float> scale;
  std::optional<int32_t> zero_point;
  std::optional<bool> symmetric;
  std::optional<bool> reduce_range;  // initializers only
  std::optional<float> rmin, rmax;   // real bounds, in place of the observed
};

// A second form of an activation, for readers that want another type (mixed precision); `quant_type` is needed.
struct ConvertOverride : ParamsOverride {
  std::optional<std::set<LayerId>> recv_nodes;  // the nodes that read it; unset: all
};

struct TensorOverride : ParamsOverride {
  // Initializers only: per channel of this axis. A single entry with an axis gives type, symmetry, range type and
  // scale to all channels; its rmin and rmax are those of channel 0, as in onnxruntime.
  std::optional<int64_t> axis;
  std::optional<ConvertOverride> convert;  // activations only

  // Ours, of weights, in place of the field of QuantizeOptions. `per_channel` along the axis that the layer has by
  // itself; without meaning where `axis` is given.
  std::optional<bool> per_channel;
  std::optional<WeightClipping> weight_clipping;
  std::optional<int64_t> block_size;
};

using TensorOverrides = std::map<std::string, std::vector<TensorOverride>>;

// JSON in onnxruntime's shape: {tensor: [{"quant_type": "QInt16", "scale": 0.1, "zero_point": 0, "symmetric": ...,
// "reduce_range": ..., "rmin": ..., "rmax": ..., "axis": ..., "convert": {..., "recv_nodes": [...]}}, ...]}; and ours:
// "per_channel", "weight_clipping", "block_size".
// Types are spelled QInt16 or int16. Throws Error{kInvalidInput} naming tensor and key.
TensorOverrides tensor_overrides_from_json(const std::string& text);
std::string tensor_overrides_to_json(const TensorOverrides& overrides);

}  // namespace seqto
