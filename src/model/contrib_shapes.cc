// Elementwise operators, normalizations and those on codes.
#include "model/contrib_shapes.h"

#include <algorithm>
#include <vector>

namespace seqto::internal {

bool has_type(const InferenceContext& ctx, size_t input) {
  if (input >= ctx.getNumInputs()) return false;
  const onnx::TypeProto* type = ctx.getInputType(input);
  return type && type->has_tensor_type() && type->tensor_type().elem_type() != onnx::TensorProto::UNDEFINED;
}

const TensorShapeProto* shape_of(const InferenceContext& ctx, size_t input) {
  return has_type(ctx, input) && onnx::hasInputShape(ctx, input) ? &onnx::getInputShape(ctx, input) : nullptr;
}

const TensorShapeProto* shape_of_rank(const InferenceContext& ctx, size_t input, int rank) {
  const TensorShapeProto* shape = shape_of(ctx, input);
  return shape && shape->dim_size() == rank ? shape : nullptr;
}

void set_type(InferenceContext& ctx, size_t output, int32_t type) {
  if (output < ctx.getNumOutputs()) onnx::updateOutputElemType(ctx, output, type);
}

void set_type_of(InferenceContext& ctx, size_t output, size_t input) {
  if (has_type(ctx, input)) set_type(ctx, output, ctx.getInputType(input)->tensor_type().elem_type());
}

void set_shape(InferenceContext& ctx, size_t output, const TensorShapeProto& shape) {
  if (output < ctx.getNumOutputs() && ctx.getOutputType(output)->has_tensor_type())
    onnx::updateOutputShape(ctx, output, shape);
}

void set_like(InferenceContext& ctx, size_t output, size_t input) {
  set_type_of(ctx, output, input);
  if (const TensorShapeProto* shape = shape_of(ctx, input)) set_shape(ctx, output, *shape);
}

onnx::TensorShapeProto_Dimension dimension(int64_t value) {
  onnx::TensorShapeProto_Dimension result;
  result.set_dim_value(value);
  return result;
}

void like_first(InferenceContext& ctx) { set_like(ctx, 0, 0); }

void halved(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  const TensorShapeProto* shape = shape_of(ctx, 0);
  if (!shape || shape->dim_size() == 0) return;
  TensorShapeProto result = *shape;
  *result.mutable_dim(result.dim_size() - 1) = result.dim(result.dim_size() - 1) / 2;
  set_shape(ctx, 0, result);
}

namespace {

void broadcast(InferenceContext& ctx, std::initializer_list<size_t> inputs) {
  std::vector<const TensorShapeProto*> shapes;
  for (size_t i : inputs) {
    shapes.push_back(shape_of(ctx, i));
    if (!shapes.back()) return;
  }
  TensorShapeProto result;
  onnx::multidirectionalBroadcastShapeInference(shapes, result);
  set_shape(ctx, 0, result);
}

}  // namespace

// A, A_scale, A_zero_point, B ...
void qlinear_binary(InferenceContext& ctx) {
  set_type_of(ctx, 0, 0);
  broadcast(ctx, {0, 3});
}

// condition, X, x_scale, x_zero_point, Y ...
void qlinear_where(InferenceContext& ctx) {
  set_type_of(ctx, 0, 1);
  broadcast(ctx, {0, 1, 4});
}

// Y_scale, Y_zero_point, then a tensor, its scale and its zero point each.
void qlinear_concat(InferenceContext& ctx) {
  set_type_of(ctx, 0, 2);
  const TensorShapeProto* first = shape_of(ctx, 2);
  if (!first) return;
  const int rank = first->dim_size();
  int64_t axis = onnx::getAttribute(ctx, "axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return;
  TensorShapeProto result = *first;
  const int a = static_cast<int>(axis);
  for (size_t i = 5; i < ctx.getNumInputs(); i += 3) {
    const TensorShapeProto* next = shape_of_rank(ctx, i, rank);
    if (!next) return;
    const bool known = result.dim(a).has_dim_value() && next->dim(a).has_dim_value();
    const int64_t sum = known ? onnx::checkedAdd(result.dim(a).dim_value(), next->dim(a).dim_value()) : -1;
    for (int d = 0; d < rank; ++d)
      if (d != a) onnx::mergeInDimensionInfo(next->dim(d), *result.mutable_dim(d), d);
    result.mutable_dim(a)->Clear();
    if (known) result.mutable_dim(a)->set_dim_value(sum);
  }
  set_shape(ctx, 0, result);
}

void quantize(InferenceContext& ctx) {
  if (has_type(ctx, 2)) set_type_of(ctx, 0, 2);
  else if (!ctx.hasInput(2)) set_type(ctx, 0, onnx::TensorProto::UINT8);
  if (const TensorShapeProto* shape = shape_of(ctx, 0)) set_shape(ctx, 0, *shape);
}

void dequantize(InferenceContext& ctx) {
  set_type_of(ctx, 0, 1);
  if (const TensorShapeProto* shape = shape_of(ctx, 0)) set_shape(ctx, 0, *shape);
}

// The statistics have a 1 for each normalized dimension.
void layer_norm(InferenceContext& ctx) {
  set_like(ctx, 0, 0);
  set_type_of(ctx, 0, 1);  // differs from the input's where that was converted for the normalization alone
  const int32_t statistics = static_cast<int32_t>(onnx::getAttribute(ctx, "stash_type", onnx::TensorProto::FLOAT));
  for (size_t output = 1; output < ctx.getNumOutputs(); ++output) {
    set_type(ctx, output, statistics);
    const TensorShapeProto* shape = shape_of(ctx, 0);
    if (!shape) continue;
    int64_t axis = onnx::getAttribute(ctx, "axis", -1);
    if (axis < 0) axis += shape->dim_size();
    TensorShapeProto result = *shape;
    for (int64_t d = std::max<int64_t>(axis, 0); d < shape->dim_size(); ++d)
      *result.mutable_dim(static_cast<int>(d)) = dimension(1);
    set_shape(ctx, output, result);
  }
}

// output, mean, inverse deviation, sum
void skip_layer_norm(InferenceContext& ctx) {
  set_like(ctx, 0, 0);
  set_like(ctx, 3, 0);
  for (const size_t output : {1, 2}) {
    set_type(ctx, output, onnx::TensorProto::FLOAT);
    const TensorShapeProto* shape = shape_of(ctx, 0);
    if (!shape || shape->dim_size() == 0) continue;
    TensorShapeProto result = *shape;
    *result.mutable_dim(shape->dim_size() - 1) = dimension(1);
    set_shape(ctx, output, result);
  }
}

namespace {

// One row of `width` entries for each id; output, mask index, sum of the embeddings.
void embed(InferenceContext& ctx, size_t type_from) {
  set_type_of(ctx, 0, type_from);
  set_type(ctx, 1, onnx::TensorProto::INT32);
  set_type_of(ctx, 2, type_from);
  const TensorShapeProto* ids = shape_of_rank(ctx, 0, 2);
  const TensorShapeProto* words = shape_of_rank(ctx, 2, 2);
  if (!ids || !words) return;
  TensorShapeProto embedded = *ids, batch;
  *embedded.add_dim() = words->dim(1);
  *batch.add_dim() = ids->dim(0);
  set_shape(ctx, 0, embedded);
  set_shape(ctx, 1, batch);
  set_shape(ctx, 2, embedded);
}

}  // namespace

void embed_layer_norm(InferenceContext& ctx) { embed(ctx, 2); }
// The embeddings are codes; the first scale is the eighth input.
void quantized_embed_layer_norm(InferenceContext& ctx) { embed(ctx, 8); }

}  // namespace seqto::internal
