// Flags of static quantization that few runs need: onnxruntime's extra options by the names of QuantizeOptions.
#include "flags.h"

namespace seqto::cli {

void add_qdq_flags(Command word, QuantizeFlags& f) {
  QuantizeOptions& o = f.options;
  auto flag = [&](const char* name, bool& field, const char* help) { word.add_flag(name, field, help); };
  auto option = [&](const char* name, auto& field, const char* help) { return word.add_option(name, field, help); };
  flag("--restricted-asymmetric-activations", o.restricted_asymmetric_activations, "uint8: zero point 0 or 128 only");
  option("--min-real-range", o.min_real_range, "Widen ranges to at least this");
  option("--headroom-16-bits", f.headroom_16_bits,
         "Ranges of 16-bit activations times this: what lies beyond them is cut off (default: 1, with --improve 2)")
      .check_range(1.0, 1024.0);
  word.add_flag_function(
      "--unify-concat,!--no-unify-concat", [&f](int64_t given) { f.unify_concat = given > 0; },
      "What only a Concat reads gets its output's scale: rounded once (default: with --improve)");
  word.add_flag_function(
      "--float-unlike-concat,!--no-float-unlike-concat", [&f](int64_t given) { f.float_unlike_concat = given > 0; },
      "Where a Concat joins boxes and scores, the last layers and what is behind them stay float (default: with "
      "--improve)");
  flag("--force-quantize-no-input-check", o.force_quantize_no_input_check,
       "Quantize Reshape, Transpose, ... even if their input is float");
  flag("--keep-removable-activations", o.keep_removable_activations, "Keep every Relu and Clip");
  flag("--add-qdq-pair-to-weight", o.add_qdq_pair_to_weight, "Weights stay float, with Q and DQ behind them");
  flag("--quantize-bias,!--no-quantize-bias", o.quantize_bias, "Biases as int32 (default)");
  flag("--adjust-weight-scale-for-bias,!--no-adjust-weight-scale-for-bias", o.adjust_weight_scale_for_bias,
       "Enlarge weight scales where a bias would leave int32 (default)");
  option("--exclude-output-op-types", o.exclude_output_op_types, "Leave the outputs of these op types float")
      .delimiter(',')
      .type_name("OP");
  flag("--dedicated-qdq-pair", o.dedicated_qdq_pair, "A Q/DQ pair for every reader of an activation");
  flag("--use-qdq-contrib-ops", o.use_qdq_contrib_ops, "Q and DQ of the domain com.microsoft");
  option("--block-size", o.block_size, "Weights of rank 2: a scale for so many values (0: none; needs opset 21)")
      .check_not_negative();
  option("--op-type-per-channel-axis", f.op_type_per_channel_axis, "Channel axis by op type, as in MatMul=0")
      .delimiter(',')
      .type_name("OP=AXIS");
  option("--tensor-overrides", f.tensor_overrides, "JSON file: types and scales of single tensors").check_file();
  word.add_option_function<bool>(
      "--matmul-const-b-only", [&o](bool value) { o.matmul_const_b_only = value; },
      "QOperator and dynamic: MatMul of two activations stays float (default: dynamic alone)");
  flag("--enable-subgraph", o.enable_subgraph, "QOperator and dynamic: also the bodies of If, Loop and Scan");
  flag("--nnapi-sigmoid", o.nnapi_sigmoid, "QOperator: Sigmoid's output gets scale 1/256, zero point 0");
  option("--compat", f.compat, "onnxruntime: follow it also in its oddities, see docs/reference/compatibility.md")
      .check_one_of({"onnxruntime"});
}

}  // namespace seqto::cli
