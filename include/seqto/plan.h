// Room: quantization. What each layer is to become: schemes and their fields, plans, groups of layers.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "seqto/model.h"

namespace seqto {

// --- Parameters that a user sets for single tensors: onnxruntime's TensorQuantOverrides
//
// A tensor has a list of overrides: one entry for the tensor as a whole, or one for each channel of `axis`. What an
// entry leaves out is computed as for every other tensor.

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
  // scale to all channels; its rmin and rmax are of channel 0, as in onnxruntime.
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

// --- Schemes that change how weights are stored and leave activations exact; and float16
//
// docs/reference/schemes.md shows what each writes into the model and what it costs at run time.

// How 4-bit weights are written.
enum class Int4Format {
  kMatMulNBits,  // com.microsoft operators where they exist (MatMul, Gemm, Gather), else folded
  kQdq,          // DequantizeLinear with block_size, opset 21 (MatMul, Gemm), else folded
  kFolded,       // ordinary operators on packed bytes, which the runtime folds to a float weight when it loads
};
std::string_view to_string(Int4Format format);        // "matmulnbits", "qdq", "folded"
Int4Format parse_int4_format(std::string_view name);  // throws Error{kUsage}

// Of the schemes int8_weights and int4_weights.
struct WeightOnlyOptions {
  // int8_weights: weights that share a scale within a channel; 0: the whole channel.
  int64_t int8_block_size = 0;
  bool int8_symmetric = true;  // else uint8 with a zero point

  // int4_weights. MatMulNBits wants a power of 2, at least 16.
  int64_t int4_block_size = 128;
  bool int4_symmetric = false;
  Int4Format int4_format = Int4Format::kMatMulNBits;
  int bits = 4;  // 2, 4 or 8 of MatMulNBits; 4 or 8 of tables and of what is folded, where 2 counts as 4; else 4
  // Of MatMulNBits: 0 lets the runtime choose, 1 computes in float32, 4 in int8 (faster, activations are rounded). With
  // 2 and 8 bits 0 is 4: the runtime has no other kernel for them that is fast.
  int accuracy_level = 0;
};

// Of the scheme float16.
struct Float16Options {
  // Compute in float16, with a Cast where a tensor changes its type; else only store weights in it.
  bool compute = false;
  // With compute: graph inputs and outputs stay float.
  bool keep_io_types = true;
  // With compute: op types that stay in float. Large sums and indices lose their meaning in float16.
  std::vector<std::string> op_block_list = {"CumSum", "Range", "Resize", "RoiAlign", "TopK", "Upsample"};
  // Finite values beyond this become it; infinities stay. With `strict` such a value is an error.
  float max_finite_val = 65504.0f;
  // With compute: nonzero constants smaller than this become it, so that an epsilon does not vanish.
  float min_positive_val = 0x1p-24f;
  bool strict = false;
};

// --- Fields of a layer's scheme: what single layers of a plan want otherwise than QuantizeOptions

// Unset fields are as QuantizeOptions, or the run's improvers, have them. Behind each: the schemes that have it.
// "Static" is int8 and int8w_int16a.
//
// A tensor has one form for all layers that read and write it. Where layers want an activation differently, the form
// with more bits counts. With equal bits a layer whose field is set decides; readers come first, in graph
// order. The layers in another type then read what they did not ask for, and where the types of a layer's activations
// differ, runtimes compute it in float. So give layers that belong together (groups()) the same fields.
// QuantizeOptions::tensor_overrides go before.
struct LayerOptions {
  // Weights.
  std::optional<DataType> weight_type;    // static; int8_dynamic and int8_weights: 8 bits; int4_weights: int4, uint4
  std::optional<bool> symmetric_weights;  // static, int8_dynamic, int8_weights, int4_weights; unset: by weight_type
  std::optional<bool> per_channel;        // static, int8_dynamic
  std::optional<bool> per_token;          // int8_dynamic
  std::optional<bool> reduce_range;       // static, int8_dynamic
  std::optional<WeightClipping> weight_clipping;  // static
  std::optional<int64_t> block_size;              // static in QDQ form, int8_weights, int4_weights
  std::optional<int> bits;                        // int4_weights: 2, 4, 8
  std::optional<int> accuracy_level;              // int4_weights, of MatMulNBits: WeightOnlyOptions::accuracy_level
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

// --- Schemes and plans

namespace internal {
struct Encoding;
}

// --- schemes and plans -------------------------------------------------------------------------

// How one layer is stored and computed.
enum class Scheme {
  kFloat32,
  kFloat16,      // weights stored and, where the device can, computed in float16
  kInt8,         // static: weights and activations in the types of QuantizeOptions
  kInt8Dynamic,  // weights int8, activations quantized at run time
  kInt8Weights,  // weights int8, computed in float
  kInt4Weights,  // weights in blocks of 4 bits, computed in float
  kInt8wInt16a,  // static: int8 weights, int16 activations
};
std::string_view to_string(Scheme scheme);   // "float32", "float16", "int8", "int8_dynamic", "int8_weights" ...
Scheme parse_scheme(std::string_view name);  // throws Error{kUsage}
// Ranges of activations are fixed in the file.
constexpr bool is_static(Scheme scheme) { return scheme == Scheme::kInt8 || scheme == Scheme::kInt8wInt16a; }

// A scheme with fields of its own: "int8+method=percentile+per_channel=false", fields as LayerOptions names them.
struct DetailedScheme {
  Scheme scheme = Scheme::kFloat32;
  LayerOptions fields;

  DetailedScheme() = default;
  DetailedScheme(Scheme s, LayerOptions f = {}) : scheme(s), fields(std::move(f)) {}
  auto operator<=>(const DetailedScheme&) const = default;
};
std::string to_string(const DetailedScheme& scheme);
DetailedScheme parse_detailed_scheme(std::string_view name);  // throws Error{kUsage}

// A layer is a node that the quantizer may touch.
struct Layer {
  LayerId id;
  std::string op_type;
  std::vector<int64_t> output_shape;  // -1 where unknown; empty: unknown or scalar
  int64_t weight_bytes = 0;           // of its constant float inputs
  bool quantizable = false;           // statically
  std::vector<Scheme> schemes;        // all that can be written for it, float32 first
  std::string reason;                 // why not, when it is not
};
// Every node of the graph, in graph order.
std::vector<Layer> layers(const Model& model);

// LayerId -> Scheme; layers that are absent are float32, so the empty plan is the original model.
struct Plan {
  std::map<LayerId, Scheme> schemes;
  std::map<LayerId, LayerOptions> options;  // fields of their schemes; absent or empty: as QuantizeOptions

  std::string hash() const;  // 16 hex digits; equal plans have equal hashes
  bool operator==(const Plan&) const = default;
};
DetailedScheme detailed_scheme(const Plan& plan, const LayerId& layer);
// Every layer that can be written in `scheme`, except the excluded.
Plan uniform_plan(const Model& model, const DetailedScheme& scheme, const std::vector<LayerId>& excluded = {});
// {"schema_version": 1, "schemes": {layer: "int8", layer: {"scheme": "int8", "per_channel": true}}}; fields as
// LayerOptions names them.
std::string plan_to_json(const Plan& plan);
Plan plan_from_json(const std::string& text);  // throws Error{kInvalidInput}

// --- Groups: layers that take one decision together, the units of a search
//
// Every layer that takes any scheme is in exactly one group. The rule:
//
//  - A layer with constant weights (Conv, ConvTranspose, Gemm, MatMul, Gather, recurrent layers, Attention ...) begins
//    a group. Layers that read the same weight are in the same group, also where one reads it through a Transpose. So
//    are matrix products that read one tensor and meet in one product: Q, K and V; gate and up.
//  - A layer without weights goes to the latest layer, in graph order, that it reads a float tensor from. The runtime
//    fuses activation functions, bias Adds and normalizations with it; pooling, Reshape and others keep its parameters.
//    A boundary between two schemes is then where a tensor passes from one layer with weights to the next. It costs one
//    conversion there.
//  - AveragePool, GlobalAveragePool and ReduceMean begin groups: to round a mean anew loses what averaging gained.
//    What is between Q, K, V and the layer behind their attention is one group: the products, Softmax, rotations.
//  - A residual Add or a Concat goes to the latest of its branches. It does not join them: a network of residual blocks
//    would melt into one group. Each branch that has another scheme costs one conversion.
//  - Layers that only graph inputs and constants lead to go to the first layer that reads from them.

struct GroupOptions {
  // Each list of patterns makes one group of the layers that it names, whatever the graph says; layers
  // without weights that it does not name follow theirs. Lists that name the same layer, or layers with the same
  // weight, are one.
  std::vector<std::vector<std::string>> together;
};

// The groups in the order of their first layers, layers in graph order. The model has names (name_nodes) and shapes
// (infer_shapes). Throws Error{kUsage} for patterns that match no layer of a group.
std::vector<std::vector<LayerId>> groups(const Model& model, const GroupOptions& = {});

// A tied weight is the table of an embedding (Gather) and the matrix of a product, as in language models. What few bits
// lose there counts twice, so where `plan` gives its layers int4_weights and no `bits` they get 8. Returns one sentence
// for each such weight.
std::vector<std::string> widen_tied_weights(Plan& plan, const Model& model);

// {"groups": [[pattern, ...], ...]}, as `seqto inspect --json` prints them: GroupOptions::together.
// Throws Error{kInvalidInput}.
std::vector<std::vector<std::string>> groups_from_json(const std::string& text);

// --- Patterns of layers: globs on node names, or `op:Conv`

// The names of the nodes that any pattern matches, in graph order. Throws Error{kUsage} with the nearest names for a
// pattern that matches nothing.
std::vector<LayerId> expand_patterns(const std::vector<std::string>& patterns, const Model& model);

}  // namespace seqto
