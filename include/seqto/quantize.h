// Room: quantization. Schemes, plans, and the writer of quantized models.
//
// The rules are onnxruntime's (its static quantizer); docs/reference/compatibility.md lists by id where we deviate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "seqto/calibrate.h"
#include "seqto/model.h"
#include "seqto/plan.h"

namespace seqto {

// How static int8 layers are written; the schemes of other layers have a form of their own.
enum class QuantFormat {
  kQdq,        // QuantizeLinear/DequantizeLinear pairs around float operators: runtimes fuse them
  kQoperator,  // QLinearConv, QGemm ...: operators on int8 tensors
};
std::string_view to_string(QuantFormat format);         // "qdq", "qoperator"
QuantFormat parse_quant_format(std::string_view name);  // throws Error{kUsage}

// Field by field onnxruntime's options; defaults are its defaults.
struct QuantizeOptions {
  QuantFormat format = QuantFormat::kQdq;
  DataType activation_type = DataType::kInt8;  // of static layers; dynamic ones have uint8 whatever stands here
  DataType weight_type = DataType::kInt8;
  bool per_channel = false;
  WeightClipping weight_clipping = WeightClipping::kNone;  // ours; of static layers
  // Ours, of dynamic MatMul and Gemm: a scale for each row of the activation (a token) instead of one for the whole
  // batch, so that an answer does not depend on what else is computed with it. Other dynamic layers stay in float.
  bool per_token = false;
  bool reduce_range = false;  // 7-bit weights, for CPUs whose u8s8 kernels saturate
  bool symmetric_activations = false;
  std::optional<bool> symmetric_weights;           // unset: symmetric when the type is signed
  bool restricted_asymmetric_activations = false;  // uint8 only: zero point 0 or 128
  std::optional<double> min_real_range;            // ranges are widened to at least this
  // Ours, for devices that shift instead of multiplying: the scale of an activation is the next power of two that its
  // range fits, that of a weight the power with the smallest squared error. Not with block_size.
  bool power_of_two_scales = false;
  // Ours: ranges of 16-bit activations are so many times as wide as calibration found them, as far as a Clip lets them
  // be. Values beyond what the samples showed are cut off, which costs more than one bit of sixteen.
  double headroom_16_bits = 1;
  // Ours: what only a Concat reads takes over the range of its output. It is then rounded once instead of twice, and
  // the runtime's Concat copies.
  bool unify_concat = false;
  // Ours, for 8-bit activations. Where a Concat joins the answers of the last layers with weights (boxes and scores of
  // a detector), all behind these layers stays in float, and so do they, with a tenth of the model's weights at most.
  bool float_unlike_concat = false;
  // Ours, beside exclude_output_op_types, for runtimes that give results of products as floats at no cost: layers
  // without weights that compute on such a result, or on what is made of integers (rows of an embedding, angles of
  // positions), stay in float, and read floats where a product reads the same tensor as codes. In codes they would
  // round what is added up from layer to layer, and need conversions of their own.
  bool float_between_products = false;
  // Ours, for runtimes whose fusions of Add cost time: where layers compute on codes, an Add of floats that a layer
  // normalization alone reads, or that reads a product of codes, is written as Sum, which they do not fuse.
  bool sums_for_adds = false;
  // Ours, for runtimes that add in the kernel of the product in front. Of an Add's inputs, the first that a product
  // computes for this Add alone gets no pair; where the other is a constant, neither does.
  bool add_joins_product = false;
  // Ours, for devices that take inputs of one scale: activations that one operator of these types reads share a range,
  // and of a Concat its output does.
  std::vector<std::string> equal_input_op_types;
  // Ours, for runtimes that compute float16 by casts: such a model is made one of float32, which kernels of codes read.
  // Inputs and outputs stay. Not with more than 2 GB of float16, nor with bodies (If, Loop, Scan).
  bool widen_float16 = false;
  bool force_quantize_no_input_check = false;  // pass-through ops quantize even if their input is not
  bool keep_removable_activations = false;     // never drop Relu/Clip that quantization makes superfluous
  bool add_qdq_pair_to_weight = false;         // float weight -> Q -> DQ
  bool quantize_bias = true;
  bool adjust_weight_scale_for_bias = true;  // keeps the int32 bias inside its range
  // QOperator form and dynamic quantization:
  std::optional<bool> matmul_const_b_only;  // MatMul and Gemm of two activations stay float; unset: in dynamic alone
  bool enable_subgraph = false;             // the bodies of If, Loop and Scan too
  bool nnapi_sigmoid = false;               // Sigmoid's output gets scale 1/256, zero point 0
  std::vector<std::string> op_types;        // empty: the default list
  std::vector<std::string> exclude_output_op_types;
  std::vector<LayerId> include;  // empty: all
  std::vector<LayerId> exclude;
  bool dedicated_qdq_pair = false;   // every quantized reader of an activation gets a pair of its own
  bool use_qdq_contrib_ops = false;  // Q/DQ of the domain com.microsoft; by itself for 4 and 16 bits below opset 21
  int64_t block_size = 0;            // weights of rank 2: a scale for so many values along the axis; needs opset 21
  // Channel axis of the constant inputs of MatMul and of the normalizations, in place of 1; negative from the end.
  std::map<std::string, int64_t> op_type_per_channel_axis;
  TensorOverrides tensor_overrides;
  // Follow onnxruntime also where we deviate, wherever its model can be loaded (docs/reference/compatibility.md).
  bool compat_onnxruntime = false;
  WeightOnlyOptions weight_only;  // of int8_weights and int4_weights
  Float16Options float16;
};
// What calibration has to know of them. Where no method is named, ranges of scales that are powers of two get mse: a
// power that is too small cuts values off, one that is too large costs a bit (bench/results/improvers.md).
void take_quantize_options(CalibrateOptions& calibrate, const QuantizeOptions& options, bool method_is_named);
// All fields as one JSON object, under their names; absent ones keep their defaults.
std::string quantize_options_to_json(const QuantizeOptions& options);
QuantizeOptions quantize_options_from_json(const std::string& text);  // throws Error{kInvalidInput}

// Sets the types and the granularity that are fast on x86: uint8 activations and int8 weights, per channel. Where the
// processor lacks VNNI instructions, products are added in pairs that 8 bits overflow: weights get 7 bits. What
// targets/onnxruntime-cpu-x86.toml says is fast: no pairs behind MatMul and Gemm, unless exclude_output_op_types are
// named, float_between_products, sums_for_adds and widen_float16. For "cpu" alone.
void take_fast_types(QuantizeOptions& options, const std::string& device = "cpu");
// What of this is about layers of all schemes: sums_for_adds and widen_float16.
void take_fast_forms(QuantizeOptions& options, const std::string& device = "cpu");

// The model as a Quantizer takes it: named nodes, inferred shapes, and the opset that the options need: 11, 13 for
// per-channel weights, 21 for 16 bits and for blocks. Where layers read weights from Constant nodes, these become
// initializers, and layers that the runtime fused with others come apart (neither with compat_onnxruntime, which takes
// such weights for activations). Nothing else is changed; the actions say what was.
Prepared quantizable_form(const Model& model, const QuantizeOptions& options);
// Whether that makes a float32 model of a float16 one (widen_float16).
bool is_widened(const Model& model, const QuantizeOptions& options);
// The same as searches and their plans see it: with what the fields of the plan need. BatchNormalization, which no
// quantized layer can be fused with, is folded into the layer before (not with compat_onnxruntime).
Prepared tunable_form(const Model& model, const QuantizeOptions& options, const Plan& plan = {});

// The op types that are quantized when QuantizeOptions::op_types is empty.
const std::vector<std::string>& default_op_types(Scheme scheme = Scheme::kInt8);

// `ranges`, in which `named` counts where static layers of the plan have a method: as Quantizer does with add_ranges,
// for work that takes one set of ranges. Throws Error{kUsage} for a method that `named` has not.
Ranges ranges_under(const Plan& plan, const Model& model, const Ranges& ranges,
                    const std::map<std::string, Ranges>& named);

// --- What was found about layers, on data (improve.h)

struct RoundedLayer {
  Tensor codes;              // as a file stores them, packed where it packs them, under these scales and zero points
  std::vector<float> scale;  // one, one an output or one a block
  std::vector<int32_t> zero_point;  // one, or one a scale
  std::vector<float> bias;          // the layer's bias in real values; empty: left as it is
  // Mean squared error of the layer's output on the samples, summed over its channels. `nearest` has a corrected bias
  // too; `learned` is never larger.
  double error_nearest = 0, error_learned = 0;
};
using Rounding = std::map<LayerId, RoundedLayer>;

// What to add to the biases, by layer and output channel, in real values.
using BiasShifts = std::map<LayerId, std::vector<float>>;

// Other scales and zero points for a weight that is only stored, as many as it has, and its codes under them.
struct RescaledLayer {
  Tensor codes;  // as a file stores them
  std::vector<float> scale;
  std::vector<int32_t> zero_point;
  std::vector<float> scale_before;  // what they were found for
  // Squared error of the weight, each input's part times its mean square; `after` is never larger.
  double error_before = 0, error_after = 0;
};
using Rescaling = std::map<LayerId, RescaledLayer>;

struct Corrections {
  Rescaling scales;
  Rounding rounding;  // under these scales
  BiasShifts shifts;  // on top of the rounding's biases

  bool empty() const { return scales.empty() && rounding.empty() && shifts.empty(); }
};

// Makes candidates of one model. Construction indexes the model once; quantize() then costs milliseconds:
// quantized weights are made once per (weight, parameters) and shared by all candidates.
class Quantizer {
 public:
  // `model` has names (name_nodes) and shapes (infer_shapes). Throws Error{kInvalidInput}: per-channel below opset
  // 13, opset below 11, option combinations that onnxruntime rejects.
  Quantizer(Model model, Ranges ranges, QuantizeOptions options);
  ~Quantizer();
  Quantizer(Quantizer&&) noexcept;

  // The range of a tensor in the candidates from now on.
  void set_range(const std::string& tensor, Range range);
  // Ranges for the layers whose LayerOptions::method is `name`, in place of any before of that name.
  void add_ranges(const std::string& name, Ranges ranges);

  // The model under the plan, with these codes and biases, one after the other. A bias that several layers share is
  // copied, and a layer without one gets one. Layers that are float, or whose form, type, scale or zero point are not
  // those that codes were found for, stay as they are. Throws Error{kInvalidInput} where a range is missing,
  // Error{kUsage} where a layer's scheme has not the field that the plan gives it, or ranges of a name that were not
  // added.
  Model quantize(const Plan& plan, const std::vector<Corrections>& corrections = {});
  // The same with onnxruntime's exclusion list: names that are no node have no effect.
  Model quantize_excluding(const std::vector<std::string>& excluded, Scheme scheme = Scheme::kInt8,
                           const std::vector<Corrections>& corrections = {});
  const Model& model() const;  // the float one
  // Everything that was decided about the last model; encoding_to_json() of recipe.h tells it.
  std::shared_ptr<const internal::Encoding> encoding() const;
  // Ids of docs/reference/compatibility.md at which the last model deviates from onnxruntime's.
  const std::vector<std::string>& deviations() const;
  // What the last plan asked for and did not get, and constants that were changed to fit; one sentence each.
  const std::vector<std::string>& notes() const;
  // Those of them that belong to a layer, by layer.
  const std::map<LayerId, std::vector<std::string>>& layer_deviations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// True if any layer can be quantized; throws Error{kInvalidInput} "nothing to quantize: ..." otherwise.
void require_quantizable(const Model& model, Scheme scheme = Scheme::kInt8);
// Throws Error{kInvalidInput} for a tree ensemble and what else consists of ai.onnx.ml's operators alone: no scheme can
// be written for those.
void refuse_trees(const Model& model);

}  // namespace seqto
