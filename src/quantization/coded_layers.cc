#include "quantization/coded_layers.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "model/sort_nodes.h"
#include "quantization/qoperator_forms.h"

namespace seqto::internal {
namespace {

bool is_code_type(DataType t) {
  return t == DataType::kInt8 || t == DataType::kUint8 || t == DataType::kInt16 || t == DataType::kUint16;
}

struct Stored {
  std::string codes, scale, zero_point;  // initializers; the last may be absent
  bool folded = false;
};

class Finder {
 public:
  explicit Finder(const Model& model) : model_(model) {
    for (const Initializer& i : model.graph.initializers) initializers_[i.name] = &i.tensor;
    for (const Node& n : model.graph.nodes) {
      for (const auto& name : n.outputs) producers_[name] = &n;
      for_each_read(n, [&](const std::string& name) { ++readers_[name]; });
    }
    for (const ValueInfo& v : model.graph.outputs) ++readers_[v.name];
    for (const ValueInfo& v : model.graph.inputs) inputs_.insert(v.name);
  }

  std::vector<CodedLayer> run() {
    std::vector<CodedLayer> layers;
    std::unordered_map<std::string, int> depths;
    for (const Node& n : model_.graph.nodes) {
      int depth = 0;
      for_each_read(n, [&](const std::string& name) {
        if (auto it = depths.find(name); it != depths.end()) depth = std::max(depth, it->second);
      });
      if (auto layer = read(n)) {
        layer->depth = depth++;
        layers.push_back(std::move(*layer));
      }
      for (const auto& name : n.outputs) depths[name] = depth;
    }
    return layers;
  }

 private:
  const Tensor* initializer(const std::string& name) const {
    auto it = initializers_.find(name);
    return it == initializers_.end() ? nullptr : it->second;
  }

  // What produces a tensor that is read once.
  const Node* own_producer(const std::string& name, std::string_view op_type) const {
    auto it = producers_.find(name);
    bool own = it != producers_.end() && it->second->op_type == op_type && readers_.at(name) == 1;
    return own ? it->second : nullptr;
  }
  bool own_initializer(const std::string& name) const { return initializer(name) && readers_.at(name) == 1; }

  // The DequantizeLinear of an initializer, both read once.
  const Node* own_codes(const std::string& name) const {
    const Node* n = own_producer(name, "DequantizeLinear");
    return n && own_initializer(n->inputs[0]) && initializer(n->inputs[1]) ? n : nullptr;
  }

  // Codes, scale and zero point of a weight: behind a DequantizeLinear, or as add_folded writes a whole channel's.
  std::optional<Stored> stored(const std::string& weight) const {
    if (const Node* n = own_codes(weight))
      return Stored{n->inputs[0], n->inputs[1], n->inputs.size() > 2 ? n->inputs[2] : "", false};
    const Node* times = own_producer(weight, "Mul");
    const Node* cast = times ? own_producer(times->inputs[0], "Cast") : nullptr;
    if (!cast || !own_initializer(cast->inputs[0]) || !initializer(times->inputs[1])) return {};
    return Stored{cast->inputs[0], times->inputs[1], "", true};
  }

  // Whether the scale's only axis beyond 1 is that of the outputs.
  static bool along_outputs(const Tensor& scale, const Tensor& codes, const WeightLayout& layout) {
    const size_t axis = layout.inputs_first ? codes.dims().size() - 1 : 0;
    if (scale.dims().size() != codes.dims().size()) return false;
    for (size_t a = 0; a < scale.dims().size(); ++a)
      if (scale.dims()[a] != (a == axis ? layout.outputs : 1)) return false;
    return true;
  }

  // A constant vector with one value, or one an output.
  static bool one_an_output(const std::vector<float>& values, int64_t outputs) {
    return values.size() == 1 || static_cast<int64_t>(values.size()) == outputs;
  }

  std::optional<CodedLayer> read(const Node& node) const {
    if (auto form = qoperator_form(node)) return read_operator(node, *form);
    bool known = node.domain.empty() && (node.op_type == "Conv" || node.op_type == "Gemm" || node.op_type == "MatMul");
    if (!known || node.name.empty() || !(producers_.contains(node.inputs[0]) || inputs_.contains(node.inputs[0])))
      return {};
    auto source = stored(node.inputs[1]);
    if (!source) return {};
    const Tensor& codes = *initializer(source->codes);
    const Tensor& scale = *initializer(source->scale);
    auto layout = weight_layout(node, codes.dims());
    if (!layout || !is_code_type(codes.type()) || scale.type() != DataType::kFloat) return {};
    CodedLayer layer{&node, node.name, 0, node.inputs[0], source->codes, *layout, to_floats(scale), 0, {}, {}};
    if (!one_an_output(layer.scale, layout->outputs)) return {};
    if (layer.scale.size() != 1 && !(source->folded ? along_outputs(scale, codes, *layout) : scale.dims().size() == 1))
      return {};
    if (!read_zero_point(*source, layer)) return {};
    read_bias(node, layer);
    return layer;
  }

  std::optional<CodedLayer> read_operator(const Node& node, const QoperatorForm& form) const {
    const std::string &weight = node.inputs[form.kWeight], &weight_scale = node.inputs[form.kWeightScale];
    const Tensor* input_scale = initializer(node.inputs[form.kInputScale]);
    if (node.name.empty() || !own_initializer(weight) || !initializer(weight_scale) || !input_scale) return {};
    const Tensor &codes = *initializer(weight), &scale = *initializer(weight_scale);
    Node as_layer{node.name, std::string(form.layer_type), "", {}, {}, node.attributes, {}};
    auto layout = weight_layout(as_layer, codes.dims());
    if (!layout || !is_code_type(codes.type()) || scale.type() != DataType::kFloat ||
        input_scale->type() != DataType::kFloat || input_scale->element_count() != 1)
      return {};
    CodedLayer layer{
        &node, original_name(node.name), 0, node.inputs[form.kInput], weight, *layout, to_floats(scale), 0, {}, {}};
    layer.is_operator = true;
    if (!one_an_output(layer.scale, layout->outputs)) return {};
    if (!read_zero_point({weight, weight_scale, node.inputs[form.kWeightZeroPoint]}, layer)) return {};
    if (form.bias == 0 || node.inputs.size() <= form.bias) return layer;
    const std::string& bias = node.inputs[form.bias];
    if (!own_initializer(bias) || initializer(bias)->element_count() != layout->outputs) return layer;
    layer.bias = bias;
    layer.bias_scale = quantize_bias({}, to_floats(*input_scale)[0], layer.scale).scale;
    return layer;
  }

  // Zero points that differ between the channels are not written by anybody: symmetric weights have 0.
  bool read_zero_point(const Stored& source, CodedLayer& layer) const {
    if (source.zero_point.empty()) return true;
    const Tensor* zero = initializer(source.zero_point);
    if (!zero) return false;
    layer.zero_point = static_cast<int32_t>(element(*zero, 0));
    for (int64_t i = 1; i < zero->element_count(); ++i)
      if (element(*zero, i) != layer.zero_point) return false;
    return true;
  }

  void read_bias(const Node& node, CodedLayer& layer) const {
    if (node.inputs.size() < 3 || node.inputs[2].empty()) return;
    const std::string& name = node.inputs[2];
    auto fits = [&](const Tensor* t) {
      return t && t->element_count() == layer.layout.outputs && t->dims().size() == 1;
    };
    if (fits(initializer(name)) && initializer(name)->type() == DataType::kFloat && readers_.at(name) == 1) {
      layer.bias = name;
    } else if (const Node* source = own_codes(name); source && fits(initializer(source->inputs[0]))) {
      bool int32 = initializer(source->inputs[0])->type() == DataType::kInt32;
      auto scale = to_floats(*initializer(source->inputs[1]));
      if (!int32 || (scale.size() != 1 && static_cast<int64_t>(scale.size()) != layer.layout.outputs)) return;
      layer.bias = source->inputs[0];
      layer.bias_scale = std::move(scale);
    }
  }

  const Model& model_;
  std::unordered_map<std::string, const Tensor*> initializers_;
  std::unordered_map<std::string, const Node*> producers_;
  std::unordered_map<std::string, int> readers_;
  std::unordered_set<std::string> inputs_;
};

}  // namespace

std::optional<WeightLayout> weight_layout(const Node& node, const std::vector<int64_t>& dims) {
  if (node.op_type == "MatMul")
    return dims.size() == 2 ? std::optional(WeightLayout{1, dims[1], dims[0], true}) : std::nullopt;
  if (node.op_type == "Gemm") {
    bool plain = dims.size() == 2 && node.int_attribute("transA", 0) == 0 && node.float_attribute("alpha", 1) == 1 &&
                 node.float_attribute("beta", 1) == 1;
    if (!plain) return {};
    bool inputs_first = node.int_attribute("transB", 0) == 0;
    return WeightLayout{1, dims[inputs_first ? 1 : 0], dims[inputs_first ? 0 : 1], inputs_first};
  }
  std::string pad = node.string_attribute("auto_pad", "NOTSET");
  int64_t groups = node.int_attribute("group", 1);
  if (dims.size() < 3 || dims.size() > 4 || (pad != "NOTSET" && pad != "VALID") || groups < 1 || dims[0] % groups)
    return {};
  int64_t inputs = 1;
  for (size_t a = 1; a < dims.size(); ++a) inputs *= dims[a];
  return WeightLayout{groups, dims[0], inputs, false};
}

std::vector<CodedLayer> coded_layers(const Model& model) { return Finder(model).run(); }

}  // namespace seqto::internal
