// Biases that take up a shift of their layers' outputs.
#include <unordered_map>

#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/improve/biased_layers.h"
#include "quantization/improve/qoperator_biases.h"
#include "seqto/improve.h"

namespace seqto {

using namespace internal;

namespace {

class Shifter {
 public:
  explicit Shifter(const Model& quantized) : result_(quantized), layers_(quantized) {}

  Model run(const BiasShifts& shifts) {
    for (const BiasedLayer& layer : layers_.all()) {
      auto it = shifts.find(result_.graph.nodes[layer.node].name);
      if (it != shifts.end()) shift(layer, it->second);
    }
    for (Node& n : new_nodes_) result_.graph.nodes.push_back(std::move(n));
    for (Initializer& i : result_.graph.initializers)
      if (auto it = changed_.find(i.name); it != changed_.end()) i.tensor = std::move(it->second);
    shift_operator_biases(result_, shifts);
    drop_unused_initializers(result_.graph);
    sort_nodes(result_.graph);
    return std::move(result_);
  }

 private:
  void shift(const BiasedLayer& layer, const std::vector<float>& by) {
    Node& node = result_.graph.nodes[layer.node];
    if (layer.bias) return shift_codes(layer, node, by);
    if (bias_input(node)) return shift_floats(node, by);
    if (layer.input && layer.weight) add_codes(layer, node, by);
    else if (!layer.input) add_floats(node, by);
  }

  void shift_codes(const BiasedLayer& layer, Node& node, const std::vector<float>& by) {
    const Tensor& codes = *layers_.constant(layer.bias->inputs[0]);
    if (codes.element_count() != static_cast<int64_t>(by.size())) return;
    std::vector<float> scale = to_floats(*layers_.constant(layer.bias->inputs[1]));
    auto old = codes.values<int32_t>();
    std::vector<int32_t> values(by.size());
    for (size_t c = 0; c < by.size(); ++c)
      values[c] = to_int32(old[c] + static_cast<double>(by[c]) / scale[scale.size() == 1 ? 0 : c]);
    Tensor tensor = Tensor::from(DataType::kInt32, codes.dims(), std::move(values));
    if (layers_.edges().only_reader(layer.bias->outputs[0]) && layers_.edges().only_reader(layer.bias->inputs[0])) {
      changed_[layer.bias->inputs[0]] = std::move(tensor);
      return;
    }
    Node dequantize = *layer.bias;
    dequantize.inputs[0] = own_name(node, "_bias_quantized");
    dequantize.name = own_name(node, "_bias_DequantizeLinear");
    node.inputs[2] = dequantize.outputs[0] = own_name(node, "_bias");
    result_.graph.initializers.push_back({dequantize.inputs[0], std::move(tensor)});
    new_nodes_.push_back(std::move(dequantize));
  }

  void shift_floats(Node& node, const std::vector<float>& by) {
    const Tensor& old = *layers_.constant(node.inputs[2]);
    if (old.element_count() != static_cast<int64_t>(by.size())) return;  // one value for every channel
    std::vector<float> values = to_floats(old);
    for (size_t c = 0; c < by.size(); ++c) values[c] += by[c];
    Tensor tensor = float_tensor(old.dims(), std::move(values));
    if (layers_.edges().only_reader(node.inputs[2])) {
      changed_[node.inputs[2]] = std::move(tensor);
    } else {
      node.inputs[2] = own_name(node, "_bias");
      result_.graph.initializers.push_back({node.inputs[2], std::move(tensor)});
    }
  }

  // A static layer without bias: int32 in steps of input times weight, as the kernels expect it.
  void add_codes(const BiasedLayer& layer, Node& node, const std::vector<float>& by) {
    const Tensor* input = layers_.constant(layer.input->inputs[1]);
    const Tensor* scale = layers_.constant(layer.weight->inputs[1]);
    if (!scale) return;
    std::vector<float> weight = to_floats(*scale);
    if (!input || input->type() != DataType::kFloat || (weight.size() != 1 && weight.size() != by.size())) return;
    QuantizedBias bias = quantize_bias(by, to_floats(*input)[0], weight);
    int64_t channels = static_cast<int64_t>(by.size()), scales = static_cast<int64_t>(bias.scale.size());
    std::vector<int64_t> scale_dims = scales > 1 ? std::vector<int64_t>{scales} : std::vector<int64_t>{};
    std::string codes = own_name(node, "_bias_quantized");
    auto& initializers = result_.graph.initializers;
    initializers.push_back({codes, Tensor::from(DataType::kInt32, {channels}, std::move(bias.values))});
    initializers.push_back({codes + "_scale", float_tensor(scale_dims, std::move(bias.scale))});
    Node dequantize{own_name(node, "_bias_DequantizeLinear"),
                    "DequantizeLinear",
                    "",
                    {codes, codes + "_scale"},
                    {own_name(node, "_bias")},
                    {},
                    {}};
    if (scales > 1) dequantize.set_attribute({"axis", int64_t{0}});
    node.inputs.resize(3);
    node.inputs[2] = dequantize.outputs[0];
    new_nodes_.push_back(std::move(dequantize));
  }

  void add_floats(Node& node, const std::vector<float>& by) {
    node.inputs.resize(3);
    node.inputs[2] = own_name(node, "_bias");
    result_.graph.initializers.push_back({node.inputs[2], float_tensor({static_cast<int64_t>(by.size())}, by)});
  }

  static std::string own_name(const Node& node, const char* suffix) { return node.name + "_corrected" + suffix; }

  Model result_;
  BiasedLayers layers_;
  std::unordered_map<std::string, Tensor> changed_;
  std::vector<Node> new_nodes_;
};

}  // namespace

Model shift_biases(const Model& quantized, const BiasShifts& shifts) { return Shifter(quantized).run(shifts); }

}  // namespace seqto
