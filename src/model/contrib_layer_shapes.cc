// Layers with weights, and pools.
#include <onnx/defs/math/utils.h>

#include <algorithm>
#include <vector>

#include "model/contrib_shapes.h"

namespace seqto::internal {
namespace {

using onnx::TensorProto;
using onnx::TypeProto;

bool flag(const InferenceContext& ctx, const char* name) { return onnx::getAttribute(ctx, name, 0) != 0; }

void multiply(InferenceContext& ctx, int a, int b) {
  if (shape_of(ctx, static_cast<size_t>(a)) && shape_of(ctx, static_cast<size_t>(b)))
    onnx::defs::math::utils::MatMulShapeInference(ctx, a, b);
}

// [batch..., rows, columns] of what FusedMatMul is given as [batch..., columns, rows] (`inner`), as
// [rows, batch..., columns] (`batch`), or both.
TensorShapeProto turned(const TensorShapeProto& shape, bool inner, bool batch) {
  std::vector<onnx::TensorShapeProto_Dimension> dims(shape.dim().begin(), shape.dim().end());
  if (batch) std::rotate(dims.begin(), dims.begin() + 1, dims.end() - 1);
  if (inner) std::swap(dims[dims.size() - 2], dims[dims.size() - 1]);
  TensorShapeProto result;
  for (const auto& d : dims) *result.add_dim() = d;
  return result;
}

TensorShapeProto batch_of(const TensorShapeProto& matrices) {
  TensorShapeProto result = matrices;
  result.mutable_dim()->DeleteSubrange(matrices.dim_size() - 2, 2);
  return result;
}

void gemm(InferenceContext& ctx, size_t a, size_t b) {
  const TensorShapeProto *left = shape_of_rank(ctx, a, 2), *right = shape_of_rank(ctx, b, 2);
  if (!left || !right) return;
  TensorShapeProto result;
  *result.add_dim() = left->dim(flag(ctx, "transA") ? 1 : 0);
  *result.add_dim() = right->dim(flag(ctx, "transB") ? 0 : 1);
  set_shape(ctx, 0, result);
}

TensorShapeProto channels_moved(const TensorShapeProto& shape, bool to_end) {
  TensorShapeProto result = shape;
  const int last = shape.dim_size() - 1;
  if (last < 2) return result;
  for (int d = 1; d <= last; ++d) {
    const int from = to_end ? (d == last ? 1 : d + 1) : (d == 1 ? last : d - 1);
    *result.mutable_dim(d) = shape.dim(from);
  }
  return result;
}

// Shows an operator whose channels come last the shapes that ONNX's functions expect.
class ChannelsFirst final : public InferenceContext {
 public:
  explicit ChannelsFirst(InferenceContext& ctx) : ctx_(ctx) {
    if (const TensorShapeProto* shape = shape_of(ctx, 0)) {
      input_ = *ctx.getInputType(0);
      *input_.mutable_tensor_type()->mutable_shape() = channels_moved(*shape, /*to_end=*/false);
    }
  }
  const onnx::AttributeProto* getAttribute(const std::string& name) const override { return ctx_.getAttribute(name); }
  size_t getNumInputs() const override { return ctx_.getNumInputs(); }
  const TypeProto* getInputType(size_t i) const override { return i == 0 ? &input_ : ctx_.getInputType(i); }
  bool hasInput(size_t i) const override { return ctx_.hasInput(i); }
  const TensorProto* getInputData(size_t i) const override { return ctx_.getInputData(i); }
  size_t getNumOutputs() const override { return 1; }
  TypeProto* getOutputType(size_t) override { return &output_; }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override {
    return ctx_.getGraphAttributeInferencer(name);
  }
  const onnx::SparseTensorProto* getInputSparseData(size_t i) const override { return ctx_.getInputSparseData(i); }
  const TensorShapeProto* getSymbolicInput(size_t i) const override { return ctx_.getSymbolicInput(i); }

  void finish() {
    if (onnx::hasShape(output_)) set_shape(ctx_, 0, channels_moved(output_.tensor_type().shape(), /*to_end=*/true));
  }

 private:
  InferenceContext& ctx_;
  TypeProto input_, output_;
};

// The weight is the input `weight`; pools have none.
void slide(InferenceContext& ctx, int weight, bool is_pool) {
  if (!shape_of(ctx, 0) || (!is_pool && !shape_of(ctx, static_cast<size_t>(weight)))) return;
  onnx::convPoolShapeInference(ctx, /*use_dilation=*/true, /*require_kernel_shape=*/is_pool, 0, weight);
}

void slide_channels_last(InferenceContext& ctx, int weight, bool is_pool) {
  if (!shape_of(ctx, 0)) return;
  ChannelsFirst turned(ctx);
  slide(turned, weight, is_pool);
  turned.finish();
}

}  // namespace

void matmul(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  multiply(ctx, 0, 1);
}

void matmul_integer_to_float(InferenceContext& ctx) {
  set_type_of(ctx, 0, 2);
  multiply(ctx, 0, 1);
}

void fused_matmul(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  const TensorShapeProto *a = shape_of(ctx, 0), *b = shape_of(ctx, 1);
  if (!a || !b) return;
  if (a->dim_size() < 2 || b->dim_size() < 2) return multiply(ctx, 0, 1);
  const TensorShapeProto left = turned(*a, flag(ctx, "transA"), flag(ctx, "transBatchA"));
  const TensorShapeProto right = turned(*b, flag(ctx, "transB"), flag(ctx, "transBatchB"));
  TensorShapeProto result;
  onnx::bidirectionalBroadcastShapeInference(batch_of(left), batch_of(right), result);
  *result.add_dim() = left.dim(left.dim_size() - 2);
  *result.add_dim() = right.dim(right.dim_size() - 1);
  set_shape(ctx, 0, result);
}

void fused_gemm(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  gemm(ctx, 0, 1);
}

// A, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point: float without the last.
void quantized_gemm(InferenceContext& ctx) {
  if (has_type(ctx, 8)) set_type_of(ctx, 0, 8);
  else if (!ctx.hasInput(8)) set_type(ctx, 0, TensorProto::FLOAT);
  gemm(ctx, 0, 3);
}

void matmul_bits(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  const TensorShapeProto* a = shape_of(ctx, 0);
  const int64_t columns = onnx::getAttribute(ctx, "N", 0);
  if (!a || a->dim_size() == 0 || columns <= 0) return;
  TensorShapeProto result = *a;
  *result.mutable_dim(a->dim_size() - 1) = dimension(columns);
  set_shape(ctx, 0, result);
}

// Codes below 8 bits in uint8 lie beside each other along the last axis.
void gather_block_quantized(InferenceContext& ctx) {
  set_type_of(ctx, 0, 2);
  const TensorShapeProto *data = shape_of(ctx, 0), *indices = shape_of(ctx, 1);
  if (!data || !indices || data->dim_size() == 0) return;
  const int rank = data->dim_size();
  int64_t axis = onnx::getAttribute(ctx, "gather_axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return;
  const int64_t bits = onnx::getAttribute(ctx, "bits", 4);
  TensorShapeProto values = *data, result;
  if (ctx.getInputType(0)->tensor_type().elem_type() == TensorProto::UINT8 && bits > 0 && bits < 8)
    *values.mutable_dim(rank - 1) = values.dim(rank - 1) * (8 / bits);
  for (int d = 0; d < axis; ++d) *result.add_dim() = values.dim(d);
  for (const auto& d : indices->dim()) *result.add_dim() = d;
  for (int d = static_cast<int>(axis) + 1; d < rank; ++d) *result.add_dim() = values.dim(d);
  set_shape(ctx, 0, result);
}

void conv(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  slide(ctx, 1, /*is_pool=*/false);
}

void nhwc_conv(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  slide_channels_last(ctx, 1, /*is_pool=*/false);
}

void nhwc_max_pool(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  slide_channels_last(ctx, 0, /*is_pool=*/true);
}

// X, x_scale, x_zero_point, W, w_scale, w_zero_point, y_scale, y_zero_point
void qlinear_conv(InferenceContext& ctx) {
  set_type_of(ctx, 0, 7);
  if (flag(ctx, "channels_last")) slide_channels_last(ctx, 3, /*is_pool=*/false);
  else slide(ctx, 3, /*is_pool=*/false);
}

void qlinear_average_pool(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  if (flag(ctx, "channels_last")) slide_channels_last(ctx, 0, /*is_pool=*/true);
  else slide(ctx, 0, /*is_pool=*/true);
}

void qlinear_global_average_pool(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  const TensorShapeProto* shape = shape_of(ctx, 0);
  if (!shape || shape->dim_size() < 2) return;
  const bool last = flag(ctx, "channels_last");
  TensorShapeProto result = *shape;
  for (int d = last ? 1 : 2; d < shape->dim_size() - (last ? 1 : 0); ++d) *result.mutable_dim(d) = dimension(1);
  set_shape(ctx, 0, result);
}

// input, weight [channels, 1, length], bias, past_state; what the next call needs of the input is as long as the weight
// reaches back.
void causal_conv_with_state(InferenceContext& ctx) {
  set_like(ctx, 0, 0);
  set_type_of(ctx, 1, 0);
  if (const TensorShapeProto* past = shape_of(ctx, 3)) return set_shape(ctx, 1, *past);
  const TensorShapeProto *input = shape_of_rank(ctx, 0, 3), *weight = shape_of_rank(ctx, 1, 3);
  if (!input || !weight || !weight->dim(2).has_dim_value() || onnx::getAttribute(ctx, "state_window", 0) != 0) return;
  const int64_t back = (weight->dim(2).dim_value() - 1) * onnx::getAttribute(ctx, "dilation", 1);
  TensorShapeProto state = *input;
  *state.mutable_dim(flag(ctx, "channels_last") ? 1 : 2) = dimension(back);
  set_shape(ctx, 1, state);
}

void recurrent(InferenceContext& ctx) {
  if (has_type(ctx, 0)) onnx::RNNShapeInference(ctx);
}

}  // namespace seqto::internal
