// Room: quantization. Parameters that a user sets for single tensors: onnxruntime's TensorQuantOverrides.
//
// A tensor has a list of overrides: one entry for the tensor as a whole, or one for each channel of `axis`. What an
// entry leaves out is computed as for every other tensor.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "seqto/model.h"

namespace seqto {

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
};

using TensorOverrides = std::map<std::string, std::vector<TensorOverride>>;

// JSON in onnxruntime's shape: {tensor: [{"quant_type": "QInt16", "scale": 0.1, "zero_point": 0, "symmetric": ...,
// "reduce_range": ..., "rmin": ..., "rmax": ..., "axis": ..., "convert": {..., "recv_nodes": [...]}}, ...]}.
// Types are spelled QInt16 or int16. Throws Error{kInvalidInput} naming tensor and key.
TensorOverrides tensor_overrides_from_json(const std::string& text);
std::string tensor_overrides_to_json(const TensorOverrides& overrides);

}  // namespace seqto
