#include "metrics/integer_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

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
  explicit Finder(const Model& model) : graph_(model.graph) {
    for (const Node& node : graph_.nodes) {
      for (const std::string& output : node.outputs) producers_[output] = &node;
      for (const std::string& input : node.inputs) readers_[input].push_back(&node);
      if (const Attribute* value = node.op_type == "Constant" ? node.attribute("value") : nullptr)
        if (const auto* tensor = std::get_if<Tensor>(&value->value)) constants_[node.outputs[0]] = tensor;
    }
    for (const Initializer& i : graph_.initializers) constants_[i.name] = &i.tensor;
    for (const ValueInfo& output : graph_.outputs) ++outputs_[output.name];
  }

  std::optional<IntegerLayer> find(const Node& node) const {
    const bool conv = node.op_type == "Conv", gemm = node.op_type == "Gemm";
    if (!node.domain.empty() || !(conv || gemm || node.op_type == "MatMul")) return {};
    const auto x = dequantized(node.inputs[0]), w = dequantized(node.inputs[1]);
    if (!x || !w || x->scales.size() != 1) return {};
    IntegerLayer layer;
    layer.audited = {.name = node.name, .op_type = node.op_type};
    layer.is_conv = conv;
    layer.input = x->codes;
    layer.input_type = x->type;
    layer.input_scale = x->scales[0];
    layer.input_zero = x->zeros[0];
    if (!find_output(node, layer) || (conv && layer.output_type == DataType::kFloat)) return {};
    const Tensor* weights = constant(w->codes);
    if (!weights) return exact(std::move(layer), "of two activations");
    if (w->type == DataType::kUint8) return exact(std::move(layer), "weights uint8");
    if (conv ? !read_conv(node, *weights, layer) : !read_matrix(node, *weights, layer)) return {};
    if (!read_channels(*w, layer) || !read_bias(node, layer)) return {};
    // One input channel a group: the kernels for these multiply in 16 bits.
    if (conv && layer.shape.groups > 1 && weights->dims()[1] == 1) return exact(std::move(layer), "depthwise");
    find_risky(layer);
    return layer;
  }

 private:
  static IntegerLayer exact(IntegerLayer layer, const char* because) {
    layer.audited.exact_because = because;
    return layer;
  }

  const Tensor* constant(const std::string& name) const {
    const auto found = constants_.find(name);
    return found == constants_.end() ? nullptr : found->second;
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

  // 8 bits that DequantizeLinear makes floats of.
  std::optional<Parameters> dequantized(const std::string& tensor) const {
    const auto found = producers_.find(tensor);
    if (found == producers_.end() || found->second->op_type != "DequantizeLinear") return {};
    const Node& node = *found->second;
    const Tensor* codes = constant(node.inputs[0]);
    auto p = parameters(node, codes ? codes->type() : DataType::kUint8);
    if (!p || (p->type != DataType::kUint8 && p->type != DataType::kInt8)) return {};
    p->codes = node.inputs[0];
    return p;
  }

  const Node* only_reader(const std::string& tensor) const {
    const auto found = readers_.find(tensor);
    const bool one = found != readers_.end() && found->second.size() == 1 && !outputs_.contains(tensor);
    return one ? found->second[0] : nullptr;
  }

  // Codes where the output goes to QuantizeLinear alone; an activation between that the codes imply is no hindrance.
  bool find_output(const Node& node, IntegerLayer& layer) const {
    layer.output = node.outputs[0];
    const Node* reader = only_reader(node.outputs[0]);
    const Node* activation = nullptr;
    if (reader && (reader->op_type == "Relu" || reader->op_type == "Clip")) {
      activation = reader;
      reader = only_reader(reader->outputs[0]);
    }
    if (!reader || reader->op_type != "QuantizeLinear") return node.op_type != "Conv";
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
    if (activation.op_type == "Relu") return p.zeros[0] == lowest;
    const auto bound = [&](size_t input, const char* name, float otherwise) {
      const Tensor* value = activation.inputs.size() > input ? constant(activation.inputs[input]) : nullptr;
      return value ? static_cast<float>(element(*value, 0)) : activation.float_attribute(name, otherwise);
    };
    const float most = std::numeric_limits<float>::max(), half = p.scales[0] / 2;
    const auto low = static_cast<float>(lowest - p.zeros[0]) * p.scales[0];
    const auto high = static_cast<float>(lowest + 255 - p.zeros[0]) * p.scales[0];
    return bound(1, "min", -most) <= low + half && bound(2, "max", most) >= high - half;
  }

  static bool read_conv(const Node& node, const Tensor& weights, IntegerLayer& layer) {
    const auto& dims = weights.dims();
    if (dims.size() != 4 || node.string_attribute("auto_pad", "NOTSET") != "NOTSET") return false;
    ConvShape& s = layer.shape;
    s.groups = node.int_attribute("group", 1);
    s.kernel = {dims[2], dims[3]};
    const auto take = [&](const char* name, std::vector<int64_t>& values) {
      if (const Attribute* a = node.attribute(name))
        if (const auto* list = std::get_if<std::vector<int64_t>>(&a->value)) values = *list;
    };
    take("strides", s.strides);
    take("dilations", s.dilations);
    take("pads", s.pads);
    layer.channels = dims[0];
    layer.depth = dims[1] * dims[2] * dims[3];
    layer.weights.resize(static_cast<size_t>(layer.channels * layer.depth));
    const auto codes = weights.values<int8_t>();
    // Input channels come together for each place of the kernel, as images are turned round to have them last.
    const int64_t area = dims[2] * dims[3];
    for (int64_t m = 0; m < dims[0]; ++m)
      for (int64_t c = 0; c < dims[1]; ++c)
        for (int64_t k = 0; k < area; ++k)
          layer.weights[m * layer.depth + k * dims[1] + c] = codes[(m * dims[1] + c) * area + k];
    return true;
  }

  static bool read_matrix(const Node& node, const Tensor& weights, IntegerLayer& layer) {
    const auto& dims = weights.dims();
    if (dims.size() != 2) return false;
    const bool gemm = node.op_type == "Gemm", turned = gemm && node.int_attribute("transB", 0) != 0;
    if (gemm && (node.float_attribute("alpha", 1) != 1 || node.float_attribute("beta", 1) != 1 ||
                 node.int_attribute("transA", 0) != 0))
      return false;
    layer.channels = turned ? dims[0] : dims[1];
    layer.depth = turned ? dims[1] : dims[0];
    layer.weights.resize(static_cast<size_t>(layer.channels * layer.depth));
    const auto codes = weights.values<int8_t>();
    for (int64_t m = 0; m < layer.channels; ++m)
      for (int64_t k = 0; k < layer.depth; ++k)
        layer.weights[m * layer.depth + k] = codes[turned ? m * layer.depth + k : k * layer.channels + m];
    return true;
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
    if (node.inputs.size() < 3 || node.inputs[2].empty()) return true;
    const auto found = producers_.find(node.inputs[2]);
    if (found == producers_.end() || found->second->op_type != "DequantizeLinear") return false;
    const Tensor* codes = constant(found->second->inputs[0]);
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

  const Graph& graph_;
  std::unordered_map<std::string, const Node*> producers_;
  std::unordered_map<std::string, std::vector<const Node*>> readers_;
  std::unordered_map<std::string, const Tensor*> constants_;
  std::unordered_map<std::string, int> outputs_;
};

}  // namespace

std::vector<IntegerLayer> integer_layers(const Model& model) {
  const Finder finder(model);
  std::vector<IntegerLayer> layers;
  for (const Node& node : model.graph.nodes)
    if (auto layer = finder.find(node)) layers.push_back(std::move(*layer));
  return layers;
}

}  // namespace seqto::internal
