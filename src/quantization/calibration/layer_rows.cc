#include "quantization/calibration/layer_rows.h"

#include <algorithm>

#include "model/op_traits.h"

namespace seqto::internal {
namespace {

using Eigen::Index;

std::vector<int64_t> spaced(int64_t count, Positions wanted) {
  std::vector<int64_t> result(static_cast<size_t>(std::min(count, wanted.most)));
  int64_t taken = static_cast<int64_t>(result.size());
  int64_t shift = count ? static_cast<int64_t>(wanted.offset % static_cast<uint64_t>(count)) : 0;
  for (int64_t i = 0; i < taken; ++i)
    result[static_cast<size_t>(i)] = (i * count + (taken < count ? shift : 0)) / taken;
  return result;
}

std::vector<int64_t> ints(const Node& node, const char* name, size_t count, int64_t otherwise) {
  const Attribute* a = node.attribute(name);
  const auto* values = a ? std::get_if<std::vector<int64_t>>(&a->value) : nullptr;
  return values && values->size() == count ? *values : std::vector<int64_t>(count, otherwise);
}

// Gemm and MatMul: every row of the input is a position.
LayerRows matrix_rows(const Tensor& input, const Tensor& output, Positions positions) {
  Index inputs = input.dims().back(), outputs = output.dims().back();
  auto taken = spaced(output.element_count() / outputs, positions);
  LayerRows rows{{inputs, static_cast<Index>(taken.size())}, {outputs, static_cast<Index>(taken.size())}};
  for (size_t p = 0; p < taken.size(); ++p) {
    Index column = static_cast<Index>(p);
    rows.inputs.col(column) =
        Eigen::Map<const Eigen::VectorXf>(input.values<float>().data() + taken[p] * inputs, inputs);
    rows.outputs.col(column) =
        Eigen::Map<const Eigen::VectorXf>(output.values<float>().data() + taken[p] * outputs, outputs);
  }
  return rows;
}

// Shapes of a 1-D Conv are read as 2-D ones with a height of 1.
struct Geometry {
  int64_t channels, height, width, outputs, out_height, out_width, kernel_h, kernel_w;
  int64_t stride_h = 1, stride_w, dilation_h = 1, dilation_w, top = 0, left;

  Geometry(const Node& node, const std::vector<int64_t>& weight, const std::vector<int64_t>& in,
           const std::vector<int64_t>& out) {
    bool plane = in.size() == 4;
    size_t spatial = in.size() - 2;
    auto stride = ints(node, "strides", spatial, 1), dilation = ints(node, "dilations", spatial, 1);
    auto pads = ints(node, "pads", 2 * spatial, 0);
    channels = in[1], outputs = out[1];
    height = plane ? in[2] : 1, width = in.back();
    out_height = plane ? out[2] : 1, out_width = out.back();
    kernel_h = plane ? weight[2] : 1, kernel_w = weight.back();
    if (plane) stride_h = stride[0], dilation_h = dilation[0], top = pads[0];
    stride_w = stride.back(), dilation_w = dilation.back(), left = pads[spatial - 1];
  }
};

void read_patch(const Geometry& g, const float* image, int64_t y, int64_t x, float* patch) {
  for (int64_t c = 0; c < g.channels; ++c)
    for (int64_t i = 0; i < g.kernel_h; ++i)
      for (int64_t j = 0; j < g.kernel_w; ++j) {
        int64_t row = y * g.stride_h + i * g.dilation_h - g.top, column = x * g.stride_w + j * g.dilation_w - g.left;
        bool inside = row >= 0 && row < g.height && column >= 0 && column < g.width;
        *patch++ = inside ? image[(c * g.height + row) * g.width + column] : 0.0f;
      }
}

LayerRows conv_rows(const Geometry& g, const Tensor& input, const Tensor& output, Positions positions) {
  int64_t plane = g.out_height * g.out_width;
  auto taken = spaced(input.dims()[0] * plane, positions);
  Index count = static_cast<Index>(taken.size());
  LayerRows rows{{g.channels * g.kernel_h * g.kernel_w, count}, {g.outputs, count}};
  for (Index p = 0; p < count; ++p) {
    int64_t image = taken[static_cast<size_t>(p)] / plane, at = taken[static_cast<size_t>(p)] % plane;
    const float* in = input.values<float>().data() + image * g.channels * g.height * g.width;
    read_patch(g, in, at / g.out_width, at % g.out_width, rows.inputs.col(p).data());
    const float* out = output.values<float>().data() + image * g.outputs * plane + at;
    for (Index o = 0; o < g.outputs; ++o) rows.outputs(o, p) = out[o * plane];
  }
  return rows;
}

}  // namespace

LayerRows layer_rows(const Node& node, const std::vector<int64_t>& weight_dims, const Tensor& input,
                     const Tensor& output, Positions positions) {
  if (!is_conv(node)) return matrix_rows(input, output, positions);
  return conv_rows(Geometry(node, weight_dims, input.dims(), output.dims()), input, output, positions);
}

}  // namespace seqto::internal
