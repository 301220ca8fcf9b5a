#include "metrics/integer_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/graph_view.h"
#include "model/op_traits.h"

namespace seqto::internal {
namespace {

// A Q or DQ's parameters.
struct Parameters {
  std::string codes;  // the tensor of codes
  DataType type = DataType::kUint8;
  std::vector<float> scales;
  std::vector<int32_t> zeros;
  int64_t axis = 1;
};

class Finder {
 public:
  Finder(const Model& model, bool fused) : view_(model), fused_(fused) {}

  std::optional<IntegerLayer> find(const Node& node) const {
    if (has(node, kDynamic | kIntegerProduct | kCodedProduct)) return left_to_runtime(node, "an operator on codes");
    const bool conv = is_conv(node);
    if (!node.domain.empty() || !(conv || has(node, kMatrixProduct))) return {};
    const auto x = dequantized(node.inputs[0]), w = dequantized(node.inputs[1]);
    if (!x || !w || x->scales.size() != 1) return {};
    IntegerLayer layer;
    layer.audited = {.name = node.name, .op_type = node.op_type};
    layer.is_conv = conv;
    layer.input = x->codes;
    layer.input_type = x->type;
    layer.input_scale = x->scales[0];
    layer.input_zero = x->zeros[0];
    layer.sums = node.outputs[0];
    const bool known = find_output(node, layer) && !(conv && layer.output_type == DataType::kFloat);
    if (fused_ && !known) return {};
    const Tensor* weights = constant(w->codes);
    if (!weights) return exact(std::move(layer), "of two activations");
    if (w->type == DataType::kUint8) return exact(std::move(layer), "weights uint8");
    if (w->type == DataType::kUint16) return left_to_runtime(node, "weights uint16");
    const std::string unread = conv ? read_conv(node, *weights, layer) : read_matrix(node, *weights, layer);
    if (!unread.empty()) return left_to_runtime(node, unread);
    if (!read_channels(*w, layer) || !read_bias(node, layer)) return {};
    // One input channel a group: the kernels for these multiply in 16 bits.
    if (conv && layer.shape.groups > 1 && weights->dims()[1] == 1) return exact(std::move(layer), "depthwise");
    if (fused_) find_risky(layer);
    return layer;
  }

 private:
  static IntegerLayer left_to_runtime(const Node& node, std::string because) {
    IntegerLayer layer;
    layer.audited = {.name = node.name, .op_type = node.op_type, .not_emulated_because = std::move(because)};
    return layer;
  }

  static IntegerLayer exact(IntegerLayer layer, const char* because) {
    layer.audited.exact_because = because;
    return layer;
  }

  const Tensor* constant(const std::string& name) const { return view_.constant(name); }

  const Node* dequantizer(const std::string& tensor) const {
    const Node* node = view_.edges.producer(tensor);
    return node && is_dequantize(*node) ? node : nullptr;
  }

  std::optional<Parameters> parameters(const Node& node, DataType otherwise) const {
    const Tensor* scale = node.inputs.size() > 1 ? constant(node.inputs[1]) : nullptr;
    const Tensor* zero = node.inputs.size() > 2 ? constant(node.inputs[2]) : nullptr;
    if (!scale || scale->type() != DataType::kFloat || node.int_attribute("block_size", 0) != 0) return {};
    Parameters p;
    p.type = zero ? zero->type() : otherwise;
    p.axis = node.int_attribute("axis", 1);
    for (int64_t i = 0; i < scale->element_count(); ++i) {
      p.scales.push_back(static_cast<float>(element(*scale, i)));
      p.zeros.push_back(zero ? static_cast<int32_t>(element(*zero, std::min(i, zero->element_count() - 1))) : 0);
    }
    if (p.scales.empty()) return {};
    return p;
  }

  bool are_computed_on(DataType type) const {
    if (type == DataType::kUint8 || type == DataType::kInt8) return true;
    return !fused_ && (type == DataType::kUint16 || type == DataType::kInt16);
  }

  // Codes that DequantizeLinear makes floats of.
  std::optional<Parameters> dequantized(const std::string& tensor) const {
    const Node* node = dequantizer(tensor);
    if (!node) return {};
    const Tensor* codes = constant(node->inputs[0]);
    auto p = parameters(*node, codes ? codes->type() : DataType::kUint8);
    if (!p || !are_computed_on(p->type)) return {};
    p->codes = node->inputs[0];
    return p;
  }

  // Codes where the output goes to QuantizeLinear alone; an activation between that the codes imply is no hindrance.
  bool find_output(const Node& node, IntegerLayer& layer) const {
    layer.output = node.outputs[0];
    const Node* reader = view_.edges.only_reader(node.outputs[0]);
    const Node* activation = nullptr;
    if (reader && has(*reader, kClips)) {
      activation = reader;
      reader = view_.edges.only_reader(reader->outputs[0]);
    }
    if (!reader || !is_quantize(*reader)) return !is_conv(node);
    const auto p = parameters(*reader, DataType::kUint8);
    if (!p || p->scales.size() != 1 || (p->type != DataType::kUint8 && p->type != DataType::kInt8)) return false;
    const int lowest = p->type == DataType::kUint8 ? 0 : -128;
    if (activation && !implied(*activation, *p, lowest)) return false;
    layer.output = reader->outputs[0];
    layer.output_type = p->type;
    layer.output_scale = p->scales[0];
    layer.output_zero = p->zeros[0];
    return true;
  }

  bool implied(const Node& activation, const Parameters& p, int lowest) const {
    if (is_relu(activation)) return p.zeros[0] == lowest;
    const auto bounds = clip_bounds(activation, view_);
    const float half = p.scales[0] / 2;
    const auto low = static_cast<float>(lowest - p.zeros[0]) * p.scales[0];
    const auto high = static_cast<float>(lowest + 255 - p.zeros[0]) * p.scales[0];
    return bounds && bounds->first <= low + half && bounds->second >= high - half;
  }

  static ConvShape shape_of(const Node& node, std::span<const int64_t> kernel) {
    const size_t axes = kernel.size();
    const auto list = [&](const char* name, size_t count, int64_t otherwise) {
      if (const Attribute* a = node.attribute(name))
        if (const auto* values = std::get_if<std::vector<int64_t>>(&a->value); values && values->size() == count)
          return *values;
      return std::vector<int64_t>(count, otherwise);
    };
    const std::string padding = node.string_attribute("auto_pad", "NOTSET");
    return {.groups = node.int_attribute("group", 1),
            .padding = padding == "SAME_UPPER"   ? ConvShape::Padding::kSameUpper
                       : padding == "SAME_LOWER" ? ConvShape::Padding::kSameLower
                                                 : ConvShape::Padding::kGiven,
            .kernel = {kernel.begin(), kernel.end()},
            .strides = list("strides", axes, 1),
            .dilations = list("dilations", axes, 1),
            .pads = padding == "VALID" ? std::vector<int64_t>(2 * axes) : list("pads", 2 * axes, 0)};
  }

  static std::vector<int16_t> signed_codes(const Tensor& weights) {
    if (weights.type() == DataType::kInt16) {
      const auto codes = weights.values<int16_t>();
      return {codes.begin(), codes.end()};
    }
    const auto codes = weights.values<int8_t>();
    return {codes.begin(), codes.end()};
  }

  // Why not; empty where it is read.
  static std::string read_conv(const Node& node, const Tensor& weights, IntegerLayer& layer) {
    const auto& dims = weights.dims();
    if (dims.size() < 3) return "weights without a kernel";
    layer.shape = shape_of(node, std::span(dims).subspan(2));
    layer.channels = dims[0];
    layer.depth = weights.element_count() / std::max<int64_t>(1, dims[0]);
    layer.weights.resize(static_cast<size_t>(layer.channels * layer.depth));
    const std::vector<int16_t> codes = signed_codes(weights);
    // Input channels come together for each place of the kernel, as images are turned round to have them last.
    const int64_t area = layer.depth / std::max<int64_t>(1, dims[1]);
    for (int64_t m = 0; m < dims[0]; ++m)
      for (int64_t c = 0; c < dims[1]; ++c)
        for (int64_t k = 0; k < area; ++k)
          layer.weights[m * layer.depth + k * dims[1] + c] = codes[(m * dims[1] + c) * area + k];
    return {};
  }

  static std::string read_matrix(const Node& node, const Tensor& weights, IntegerLayer& layer) {
    const auto& dims = weights.dims();
    if (dims.size() != 2) return fmt::format("weights of {} dimensions", dims.size());
    if (has_factors(node) || node.int_attribute("transA", 0) != 0) return "alpha, beta or transA";
    const size_t outputs = *output_axis(node, 2);
    const bool turned = outputs == 0;
    layer.channels = dims[outputs];
    layer.depth = dims[1 - outputs];
    layer.weights.resize(static_cast<size_t>(layer.channels * layer.depth));
    const std::vector<int16_t> codes = signed_codes(weights);
    for (int64_t m = 0; m < layer.channels; ++m)
      for (int64_t k = 0; k < layer.depth; ++k)
        layer.weights[m * layer.depth + k] = codes[turned ? m * layer.depth + k : k * layer.channels + m];
    return {};
  }

  static bool read_channels(const Parameters& w, IntegerLayer& layer) {
    const auto channels = static_cast<size_t>(layer.channels);
    if (w.scales.size() != 1 && w.scales.size() != channels) return false;
    layer.weight_scales = w.scales;
    layer.weight_zeros = w.zeros;
    layer.weight_scales.resize(channels, w.scales[0]);
    layer.weight_zeros.resize(channels, w.zeros[0]);
    return true;
  }

  bool read_bias(const Node& node, IntegerLayer& layer) const {
    layer.bias.assign(static_cast<size_t>(layer.channels), 0);
    const auto bias = bias_input(node);
    if (!bias) return true;
    const Node* stored = dequantizer(node.inputs[*bias]);
    const Tensor* codes = stored ? constant(stored->inputs[0]) : nullptr;
    if (!codes || codes->type() != DataType::kInt32 || codes->element_count() != layer.channels) return false;
    std::ranges::copy(codes->values<int32_t>(), layer.bias.begin());
    return true;
  }

  static void find_risky(IntegerLayer& layer) {
    layer.risky.resize(static_cast<size_t>(layer.channels));
    for (int64_t m = 0; m < layer.channels; ++m) {
      const int16_t* w = &layer.weights[m * layer.depth];
      for (int64_t k = 0; k < layer.depth; k += 2) {
        const int first = w[k], second = k + 1 < layer.depth ? w[k + 1] : 0;
        const int64_t high = 255LL * (std::max(first, 0) + std::max(second, 0));
        const int64_t low = -255LL * (std::min(first, 0) + std::min(second, 0));
        layer.audited.largest_sum = std::max({layer.audited.largest_sum, high, low - 1});
        if (high > 32767 || low > 32768) layer.risky[m].push_back(static_cast<int32_t>(k));
      }
    }
  }

  GraphView view_;
  bool fused_;
};

}  // namespace

std::vector<IntegerLayer> integer_layers(const Model& model, bool fused) {
  const Finder finder(model, fused);
  std::vector<IntegerLayer> layers;
  for (const Node& node : model.graph.nodes)
    if (auto layer = finder.find(node)) layers.push_back(std::move(*layer));
  return layers;
}

}  // namespace seqto::internal
