// Attention: [batch, tokens, width] in, [batch, tokens, width of the values] out, and the keys and values that later
// tokens look at.
#include "model/contrib_shapes.h"

namespace seqto::internal {
namespace {

using onnx::TensorShapeProto_Dimension;

TensorShapeProto with_width(const TensorShapeProto& shape, const TensorShapeProto_Dimension& width) {
  TensorShapeProto result = shape;
  *result.mutable_dim(shape.dim_size() - 1) = width;
  return result;
}

TensorShapeProto_Dimension sum_of_known(const TensorShapeProto_Dimension& a, const TensorShapeProto_Dimension& b) {
  return a.has_dim_value() && b.has_dim_value() ? a + b.dim_value() : TensorShapeProto_Dimension{};
}

// A third of what is merged for queries, keys and values; qkv_hidden_sizes tells where they differ.
TensorShapeProto_Dimension merged_width(const InferenceContext& ctx) {
  if (const auto* sizes = ctx.getAttribute("qkv_hidden_sizes"))
    return sizes->ints_size() == 3 ? dimension(sizes->ints(2)) : TensorShapeProto_Dimension{};
  for (size_t input : {2, 1})
    if (const TensorShapeProto* shape = shape_of(ctx, input); shape && shape->dim_size() > 0)
      return shape->dim(shape->dim_size() - 1) / 3;
  return {};
}

void merged_attention(InferenceContext& ctx, size_t type_from, size_t past) {
  set_type_of(ctx, 0, type_from);
  set_type_of(ctx, 1, type_from);
  const TensorShapeProto* input = shape_of(ctx, 0);
  if (!input || input->dim_size() < 2) return;
  set_shape(ctx, 0, with_width(*input, merged_width(ctx)));
  // [keys and values, batch, heads, tokens, size]
  const TensorShapeProto* before = shape_of_rank(ctx, past, 5);
  if (!before) return;
  TensorShapeProto present = *before;
  if (onnx::getAttribute(ctx, "past_present_share_buffer", 0) == 0)
    *present.mutable_dim(3) = sum_of_known(before->dim(3), input->dim(1));
  set_shape(ctx, 1, present);
}

// The query says how many tokens; the width is that of the values, which may be packed with it or with the keys.
void set_attended(InferenceContext& ctx, const TensorShapeProto& query, int64_t packed) {
  const TensorShapeProto *key = shape_of(ctx, 1), *value = shape_of(ctx, 2);
  TensorShapeProto result;
  *result.add_dim() = query.dim(0);
  *result.add_dim() = query.dim(1);
  if (query.dim_size() == 5) *result.add_dim() = query.dim(2) * query.dim(4);
  else if (value && value->dim_size() == 3) *result.add_dim() = value->dim(2);
  else if (value && value->dim_size() == 4) *result.add_dim() = value->dim(1) * value->dim(3);
  else if (key && key->dim_size() == 5) *result.add_dim() = query.dim(2);
  else if (packed > 1 && !ctx.hasInput(1)) *result.add_dim() = query.dim(2) / packed;
  else return;
  set_shape(ctx, 0, result);
}

// `packed`: how many widths a query of three dimensions without keys holds; 0 where it cannot.
void attend(InferenceContext& ctx, size_t past_key, int64_t packed) {
  set_type_of(ctx, 0, 0);
  for (size_t output : {1, 2}) set_type_of(ctx, output, has_type(ctx, past_key) ? past_key : 0);
  const TensorShapeProto* query = shape_of(ctx, 0);
  if (!query || (query->dim_size() != 3 && query->dim_size() != 5)) return;
  set_attended(ctx, *query, packed);
  const TensorShapeProto* past = shape_of_rank(ctx, past_key, 4);
  const TensorShapeProto* key = shape_of_rank(ctx, 1, 3);
  if (!past) return;
  TensorShapeProto present = *past;  // [batch, heads, tokens, size]
  // Where past and present share a buffer its length is not the sum.
  const bool shared = onnx::getAttribute(ctx, "past_present_share_buffer", 0) != 0 || ctx.hasInput(8);
  *present.mutable_dim(2) = shared || !key ? TensorShapeProto_Dimension{} : sum_of_known(past->dim(2), key->dim(1));
  for (size_t output : {1, 2}) set_shape(ctx, output, present);
}

}  // namespace

void attention(InferenceContext& ctx) { merged_attention(ctx, 0, 4); }

// input, weight, bias, input_scale, weight_scale, mask_index, two zero points, past
void quantized_attention(InferenceContext& ctx) { merged_attention(ctx, 3, 8); }

void multi_head_attention(InferenceContext& ctx) { attend(ctx, 6, /*packed=*/0); }

void decoder_masked_multi_head_attention(InferenceContext& ctx) { attend(ctx, 5, /*packed=*/3); }

// query, key, value, past_key, past_value ...: fewer heads for keys than for queries. Without a key all lie in the
// query.
void group_query_attention(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  for (size_t output : {1, 2}) set_type_of(ctx, output, has_type(ctx, 3) ? 3 : 0);
  const TensorShapeProto* query = shape_of_rank(ctx, 0, 3);
  if (!query) return;
  const int64_t heads = onnx::getAttribute(ctx, "num_heads", 0), key_heads = onnx::getAttribute(ctx, "kv_num_heads", 0);
  const bool packed = !ctx.hasInput(1);
  if (heads <= 0 || key_heads <= 0 || heads > (int64_t{1} << 20) || key_heads > heads) return;
  const TensorShapeProto_Dimension size = query->dim(2) / (packed ? heads + 2 * key_heads : heads);
  set_shape(ctx, 0, packed ? with_width(*query, size * heads) : *query);
  TensorShapeProto present;  // [batch, heads, tokens, size]
  if (const TensorShapeProto* past = shape_of_rank(ctx, 3, 4)) {
    present = *past;
  } else {
    *present.add_dim() = query->dim(0);
    *present.add_dim() = dimension(key_heads);
    present.add_dim();
    *present.add_dim() = size;
  }
  present.mutable_dim(2)->Clear();  // the caller decides how many there is room for
  for (size_t output : {1, 2}) set_shape(ctx, output, present);
}

// query, key, value, past_state: a matrix for each head in place of keys and values.
void linear_attention(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  set_type_of(ctx, 1, has_type(ctx, 3) ? 3 : 0);
  if (const TensorShapeProto* past = shape_of_rank(ctx, 3, 4)) set_shape(ctx, 1, *past);
  const TensorShapeProto *query = shape_of_rank(ctx, 0, 3), *key = shape_of_rank(ctx, 1, 3),
                         *value = shape_of_rank(ctx, 2, 3);
  const int64_t heads = onnx::getAttribute(ctx, "q_num_heads", 0);
  const int64_t key_heads = onnx::getAttribute(ctx, "kv_num_heads", 0);
  if (!query || !key || !value || heads <= 0 || key_heads <= 0 || heads > (int64_t{1} << 20)) return;
  set_shape(ctx, 0, with_width(*query, value->dim(2) / key_heads * heads));
  if (shape_of(ctx, 3) || onnx::getAttribute(ctx, "state_window", 0) != 0) return;
  TensorShapeProto state;
  *state.add_dim() = query->dim(0);
  *state.add_dim() = dimension(key_heads);
  *state.add_dim() = key->dim(2) / key_heads;
  *state.add_dim() = value->dim(2) / key_heads;
  set_shape(ctx, 1, state);
}

// a, dt_bias, decay_scale, b: decay, beta
void linear_attention_gate(InferenceContext& ctx) {
  for (const size_t output : {0, 1}) set_like(ctx, output, 0);
}

}  // namespace seqto::internal
