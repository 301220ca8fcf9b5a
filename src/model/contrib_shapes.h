// Room: model. Types and shapes of what onnxruntime's operators write; one function a family of operators.
//
// The functions ask for nothing: an input that is missing or has no type leaves its outputs untyped. Where shapes
// contradict each other they throw onnx::InferenceError, as those of ONNX do.
#pragma once

#include <onnx/defs/shape_inference.h>

#include <cstddef>
#include <cstdint>

namespace seqto::internal {

using onnx::InferenceContext;
using onnx::TensorShapeProto;

// --- what all of them use ------------------------------------------------------------------------

bool has_type(const InferenceContext& ctx, size_t input);
// The shape of an input; nothing where it or its number of dimensions is not known.
const TensorShapeProto* shape_of(const InferenceContext& ctx, size_t input);
const TensorShapeProto* shape_of_rank(const InferenceContext& ctx, size_t input, int rank);
void set_type(InferenceContext& ctx, size_t output, int32_t type);
void set_type_of(InferenceContext& ctx, size_t output, size_t input);
// Only where the output's type is known: a shape without a type says nothing to those who read it.
void set_shape(InferenceContext& ctx, size_t output, const TensorShapeProto& shape);
void set_like(InferenceContext& ctx, size_t output, size_t input);
onnx::TensorShapeProto_Dimension dimension(int64_t value);

// --- elementwise, normalizations, quantization ---------------------------------------------------

void like_first(InferenceContext& ctx);      // Gelu, RotaryEmbedding, QLinearSigmoid ...
void halved(InferenceContext& ctx);          // BiasSplitGelu
void qlinear_binary(InferenceContext& ctx);  // QLinearAdd, QLinearMul
void qlinear_where(InferenceContext& ctx);
void qlinear_concat(InferenceContext& ctx);
void quantize(InferenceContext& ctx);
void dequantize(InferenceContext& ctx);
void layer_norm(InferenceContext& ctx);  // LayerNormalization, SimplifiedLayerNormalization
void skip_layer_norm(InferenceContext& ctx);
void embed_layer_norm(InferenceContext& ctx);
void quantized_embed_layer_norm(InferenceContext& ctx);

// --- layers with weights, pools ------------------------------------------------------------------

void matmul(InferenceContext& ctx);  // DynamicQuantizeMatMul, GemmFastGelu
void matmul_integer_to_float(InferenceContext& ctx);
void fused_matmul(InferenceContext& ctx);
void fused_gemm(InferenceContext& ctx);
void quantized_gemm(InferenceContext& ctx);
void matmul_bits(InferenceContext& ctx);  // MatMulNBits, MatMulBnb4
void gather_block_quantized(InferenceContext& ctx);
void conv(InferenceContext& ctx);  // FusedConv
void nhwc_conv(InferenceContext& ctx);
void nhwc_max_pool(InferenceContext& ctx);
void qlinear_conv(InferenceContext& ctx);
void qlinear_average_pool(InferenceContext& ctx);
void qlinear_global_average_pool(InferenceContext& ctx);
void recurrent(InferenceContext& ctx);  // DynamicQuantizeLSTM
void causal_conv_with_state(InferenceContext& ctx);

// --- attention -----------------------------------------------------------------------------------

void attention(InferenceContext& ctx);  // DecoderMaskedSelfAttention, PackedAttention too
void quantized_attention(InferenceContext& ctx);
void multi_head_attention(InferenceContext& ctx);
void decoder_masked_multi_head_attention(InferenceContext& ctx);
void group_query_attention(InferenceContext& ctx);  // SparseAttention too
void linear_attention(InferenceContext& ctx);
void linear_attention_gate(InferenceContext& ctx);

}  // namespace seqto::internal
