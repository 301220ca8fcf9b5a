// Room: quantization. What a runtime on a device takes and computes in integers: tables, and what they say of a file.
// See docs/reference/targets.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/model.h"
#include "seqto/quantize.h"

namespace seqto {

// Of operators between DequantizeLinear and QuantizeLinear: when the runtime computes them on codes. The first rule
// that names an operator and is met decides; where none is, the first one's reason is told.
struct TargetRule {
  enum class As {
    kIntegers,  // a kernel of its own
    kMoved,     // the codes pass as they are: scale and zero point are the same on both sides
    kStored     // the weight alone is in codes
  };
  enum class Second { kAny, kConstant, kActivation };
  std::vector<std::string> ops;
  As as = As::kIntegers;
  Second second = Second::kAny;                // kConstant: the second input is one; kActivation: none is
  std::vector<DataType> activations, weights;  // types of codes; empty: any
  bool same_types = true;                      // all activations and the output have one type
  bool equal_inputs = false;                   // activations have one scale and zero point
  std::vector<DataType> signed_weights_for;    // activations of these types need int8 weights
  bool per_channel = true;                     // weights may have a scale for each channel
  bool symmetric_activations = false, symmetric_weights = false;  // zero points have to be 0
  bool power_of_two = false;                                      // scales have to be
  // Of kMoved: with pairs on one side alone, these move to the other, past any number of such operators.
  bool propagates = false;
  bool int32_bias = false;                   // a bias has to be int32 codes, or absent ...
  bool bias_beside_factors = false;          // ... and may stand beside alpha or beta
  bool quantizes_constants = false;          // a weight or bias in float, where input and output are quantized
  bool pairs_scalars = false;                // a scalar constant in float beside codes
  bool needs_output = true;                  // of a QuantizeLinear behind it
  int64_t least_inner = 0, least_outer = 0;  // of a product's weight: sums over fewer, or gives fewer: not worth it
  int64_t least_rows = 0;                    // of the first input of a MatMul or Gemm; open dimensions are enough
  std::optional<double> output_scale;        // that the output has to have
  std::optional<int64_t> output_zero_point;
  int64_t from_opset = 0;
  std::string mode;  // that its attribute of this name has to have; empty: any
  std::string why;   // of what it refuses; may be empty
};

// How a device adds products and makes codes of sums.
struct Arithmetic {
  enum class Rounding { kHalfEven, kHalfUp };  // of values halfway between two codes: to the even, to the greater one
  Rounding rounding = Rounding::kHalfEven;
  int64_t accumulator_bits = 32;  // 8 to 64, signed, twice as many of 16-bit codes: sums beyond that stop at the end
  bool pairs_saturate = false;    // x86 without VNNI: sums of two neighbouring products stop at the ends of 16 bits
};

// A table of targets/*.toml, or of a file of the user's.
struct Target {
  std::string name, title;
  std::string known;                   // "run", "compiled", "documented"
  std::vector<std::string> sources;    // where that is said, or what was run
  std::string device;                  // of RunnerOptions, where it can be measured; empty: none
  std::vector<std::string> schemes;    // that files for it may have, as plans name them
  std::vector<std::string> floats;     // types that it computes other layers in; empty: none, such layers are refused
  std::vector<std::string> operators;  // on codes that it has beside pairs: "QLinearConv", "MatMulNBits" ...
  // Weights that these take, others are refused: types of tensors, of bytes with the bits of a code, "uint8:4". One
  // that is not here takes all.
  std::map<std::string, std::vector<std::string>> operator_codes;
  std::vector<std::string> lacks;               // of ai.onnx, that it has in no form
  int64_t most_opset = 0, most_ir_version = 0;  // 0: any
  bool fixed_shapes = false;                    // takes no model with an open dimension of an input
  // Beside those in front of layers, pairs stand behind these operators alone, so that what follows others can be
  // fused; nothing: behind all.
  std::optional<std::vector<std::string>> pairs_behind;
  bool float_between_products = false, sums_for_adds = false, add_joins_product = false;  // as in QuantizeOptions
  bool clips_join_layers = false;        // a Relu or Clip runs in the kernel of the product or Add in front
  bool float_biases = false;             // a DequantizeLinear of int32 codes is refused
  std::optional<double> min_real_range;  // as in QuantizeOptions
  // Before it looks for layers, constants are computed, equal QuantizeLinear merged, and what a QuantizeLinear does
  // again or undoes is left out.
  bool optimizes_pairs = false;
  bool refuses_clips_of_inputs = false;       // that the QuantizeLinear behind them repeats
  bool signed_pairs_become_unsigned = false;  // int8 of a QuantizeLinear that one DequantizeLinear reads is as uint8
  std::optional<Arithmetic> arithmetic;       // where it is not that of runtimes on a CPU: what audit() can emulate
  std::vector<TargetRule> rules;
};
std::vector<std::string> target_names();
// A name, or the path of a TOML file. Throws Error{kUsage} for neither, Error{kInvalidInput} naming line and key.
Target load_target(const std::string& name_or_file);

enum class Verdict {
  kIntegers,    // computed on codes
  kFused,       // a pair's node that is part of such a layer
  kConversion,  // a pair's node that runs
  kFloat,       // computed in float
  kOther,       // neither: shapes, indices
  kRefused      // the target cannot run it
};
std::string_view to_string(Verdict verdict);  // "integers", "fused", "conversion", "float", "other", "refused"

struct LintedNode {
  LayerId node;
  std::string op_type;
  Verdict verdict = Verdict::kOther;
  bool wasted = false;  // kFloat, though quantized: its weights and input are, or codes that no layer in integers needs
  std::string reason;   // the rule that says so; empty where there is nothing to say
};
struct Lint {
  std::string target, known;
  std::vector<LintedNode> nodes;  // each once, in graph order
  int64_t count(Verdict verdict) const;
  int64_t wasted() const;
};
// `model` has names and shapes. Bodies of If, Loop and Scan are not looked at.
Lint lint(const Model& model, const Target& target);
std::string lint_to_json(const Lint& result);

// --- Files that are made for a target

// Why a device does not take a model, in its words; empty: it does.
using Refusal = std::function<std::string(const Model& model)>;

// Types, zero points and granularity of static layers as the target's rules for convolutions and products want them;
// biases in float where it takes no others; weights of 7 bits where pairs saturate, and without [arithmetic] for "cpu"
// where they do on this processor. Fields in `named` (as QuantizeOptions spells them) stay. Throws Error{kUsage} where
// the target computes nothing in integers, or does not take a named field's value.
void take_target_types(QuantizeOptions& options, const Target& target, std::span<const char* const> named = {});
// What of this is about layers of all schemes: sums_for_adds, and widen_float16 where `floats` has float32 alone.
void take_target_forms(QuantizeOptions& options, const Target& target);
// After that, of `model` as quantizable_form() gives it: single weights and outputs that have rules of their own become
// tensor_overrides, and what the target would compute in float all the same is added to `exclude`. Returns a sentence
// of what that was; empty: nothing. `refusal` (of refusal_by(); may be empty) is asked as well: layers that a device
// refuses on codes are found by halves. Throws Error{kInvalidInput} where the opset or IR version is beyond the
// target's, where an input has an open dimension and it takes fixed shapes, and where it refuses a node on codes and in
// float.
std::string take_target_layers(QuantizeOptions& options, const Target& target, const Model& model,
                               const Refusal& refusal = {});
// Throws Error{kUsage} where the target takes no layers in `scheme`; one that it lists without `bits` is taken with
// any. `asked_by`: "--mode dynamic".
void require_scheme(const Target& target, const DetailedScheme& scheme, const std::string& asked_by);
// Throws Error{kInvalidInput} naming the first node that the target refuses.
void require_taken(const Model& model, const Target& target);

}  // namespace seqto
